"""How the event store keeps its data: a folder of Parquet parts and a ledger that says which of them count.

``sources`` finds what to read, ``ingest`` reads it, ``records_as_tables`` turns records into Arrow tables,
``parts`` writes them, ``ledger`` decides which parts are valid, ``query`` and ``merge`` read them back,
``derived`` computes what follows from them, ``compact`` merges parts.  The public face is
:class:`replay.store.EventStore`.
"""
