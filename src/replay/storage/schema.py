"""Columns and types of every table, in Parquet and in the DataFrames that queries return.

This module imports pyarrow, so that it is loaded only when something is read or written.
"""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
DETAIL = pa.map_(pa.string(), pa.string())
STRINGS = pa.list_(pa.string())

# Without the column `run`, which is the name of the part's folder.
EVENTS = pa.schema(
    [
        ("event", pa.string()),
        ("incident", pa.string()),
        ("role", pa.string()),
        ("kind", pa.string()),
        ("time", TIME),
        ("time_precision", pa.string()),
        ("step", pa.int64()),
        ("step_end", pa.int64()),
        ("field", pa.string()),
        ("before", pa.float64()),
        ("after", pa.float64()),
        ("unit", pa.string()),
        ("detail", DETAIL),
        ("lost_steps", pa.float64()),
        ("lost_hours", pa.float64()),
        ("text", pa.string()),
        ("source", pa.string()),
        ("locator", pa.string()),
        ("evidence", pa.string()),
    ]
)

# Without `run`, as above.
SCALARS = pa.schema(
    [
        # Only a time can be missing.  Of the others Parquet need not note for each value that it is there.
        pa.field("source", pa.string(), nullable=False),
        pa.field("segment", pa.int32(), nullable=False),
        pa.field("tag", pa.string(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("wall_time", TIME),
        pa.field("value", pa.float64(), nullable=False),
    ]
)

NAME = pa.dictionary(pa.int32(), pa.string())

# The same with names as Arrow's dictionaries, which Parquet takes over without looking at each row.
SCALARS_ON_DISK = pa.schema([one.with_type(NAME) if one.type == pa.string() else one for one in SCALARS])

RUNS = pa.schema(
    [
        ("run", pa.string()),
        ("title", pa.string()),
        ("organisation", pa.string()),
        ("parameters", pa.float64()),
        ("hardware", pa.string()),
        ("precision", pa.string()),
        ("optimizer", pa.string()),
        ("batch", pa.string()),
        ("schedule", pa.string()),
        ("clock", pa.string()),
        ("batch_schedule", pa.list_(pa.struct([("from_step", pa.int64()), ("samples", pa.int64())]))),
        ("sequence_length", pa.int64()),
        ("seconds_per_step", pa.float64()),
        ("sources", STRINGS),
        ("metadata", DETAIL),
    ]
)

FINDINGS = pa.schema(
    [
        ("run", pa.string()),
        ("check", pa.string()),
        ("source", pa.string()),
        ("locator", pa.string()),
        ("readings", STRINGS),
        ("likely", pa.string()),
        ("reasons", pa.string()),
        ("incident", pa.string()),
    ]
)

PROBLEMS = pa.schema(
    [
        ("source", pa.string()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("lost_bytes", pa.int64()),
        ("lost_records", pa.int64()),
    ]
)

LEDGER = pa.schema(
    [
        ("source", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("format", pa.string()),
        ("confidence", pa.float64()),
        ("run", pa.string()),
        ("named_by", pa.string()),
        ("folder", pa.string()),
        ("generation", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("sequence", pa.int64()),
        ("replaces_former", pa.bool_()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("inode", pa.uint64()),
        ("fingerprinted", pa.int64()),
        ("fingerprint", STRINGS),
        ("segment_base", pa.int64()),
        ("segments", pa.int64()),
        ("state", pa.string()),
        (
            "parts",
            pa.list_(
                pa.struct(
                    [
                        ("table", pa.string()),
                        ("path", pa.string()),
                        ("run", pa.string()),
                        ("rows", pa.int64()),
                        ("first_step", pa.int64()),
                        ("last_step", pa.int64()),
                    ]
                )
            ),
        ),
        ("bytes_read", pa.int64()),
        ("records", pa.int64()),
        ("not_understood", pa.int64()),
        ("lost_bytes", pa.int64()),
        ("lost_records", pa.int64()),
        ("examples", STRINGS),
        ("other", pa.map_(pa.string(), pa.int64())),
    ]
)

ATTEMPTS = pa.schema(
    [
        ("attempt", pa.int64()),
        ("parent", pa.int64()),
        ("start_step", pa.int64()),
        ("end_step", pa.int64()),
        ("kept_to", pa.int64()),
        ("lost_steps", pa.int64()),
        ("start_time", TIME),
        ("end_time", TIME),
        ("end_cause", pa.string()),
        # Which rows of the scalars belong to the attempt: those of a segment with low <= step <= high.
        (
            "pieces",
            pa.list_(
                pa.struct(
                    [
                        ("source", pa.string()),
                        ("segment", pa.int64()),
                        ("low", pa.int64()),
                        ("high", pa.int64()),
                        ("first", pa.int64()),
                    ]
                )
            ),
        ),
    ]
)

FLAGS = pa.schema(
    [
        ("rule", pa.string()),
        ("signal", pa.string()),
        ("step", pa.int64()),
        ("step_end", pa.int64()),
        ("time", TIME),
        ("severity", pa.string()),
        ("value", pa.float64()),
        ("baseline", pa.float64()),
        ("score", pa.float64()),
        ("message", pa.string()),
        ("attempt", pa.int64()),
    ]
)

EFFECTS = pa.schema(
    [
        ("arm", pa.string()),
        ("control", pa.string()),
        ("metric", pa.string()),
        ("n_seeds", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("verdict", pa.string()),
        ("note", pa.string()),
    ]
)
