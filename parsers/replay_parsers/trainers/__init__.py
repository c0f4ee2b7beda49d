"""Logs of trainers: one small module for each dialect.

What a line means is the dialect's (:mod:`.megatron`, :mod:`.fairseq`, :mod:`.huggingface` ...); how logs are read is
not: lines come from :mod:`replay_parsers.lines`, :mod:`.reading` drives a dialect over them and keeps the ledger,
:mod:`.columns` gathers rows, :mod:`.events` names events, :mod:`.line_events` recognises the lines that tell of one
whatever the trainer, :mod:`.repeats` knows one report printed by many ranks from a restart, :mod:`.losses` a loss that
is no number.  A dialect of one line a record is a function from a line to a report (:mod:`.one_line`); one that prints
a value a line below their step is two functions (:mod:`.under_header`).
"""
