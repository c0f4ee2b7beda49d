"""Logs of fairseq and metaseq (`fairseq/logging/progress_bar.py`), as JSON or in the `simple` form.

    2021-03-08 18:05:06 | INFO | train_inner | {"epoch": 1, "loss": "16.408", "num_updates": "1", "gnorm": "18.27"}
    2023-06-13 17:31:08 | INFO | train_inner | epoch 143:     85 / 282 loss=3.147, num_updates=40100, lr=0.00016
    2023-06-13 17:31:54 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 2.001 | num_updates 1000

Numbers are strings.  A gradient overflow is no update, so that the numbering of updates stands still over it;
metaseq lowers the learning rate by itself where the loss spikes.
"""

from __future__ import annotations

import json
import re

from replay_parsers.trainers.numbers import parse_number, parse_step
from replay_parsers.trainers.one_line import Report, one_line_parser
from replay_parsers.trainers.timestamps import printed_time

_PREFIX = re.compile(r"(?:.{0,60}? \| )?INFO \| ([\w./-]{1,60}) \| ")
_INNER = re.compile(r"\|? ?epoch (\d{1,9}): {1,12}\d{1,18} / \d{1,18} ([\w/.-]{1,60}=.{1,3000})$")
_EPOCH = re.compile(r"\|? ?epoch (\d{1,9}) \| (.{1,3000})$")
_SUBSET = re.compile(r"valid on '([^']{1,80})' subset")


def read_line(text: str) -> Report | None:
    """The report on one line; None when it holds none."""
    if "num_updates" not in text:
        return None
    prefix = _PREFIX.match(text)
    logger, message = (prefix[1], text[prefix.end() :]) if prefix else ("", text)
    time = printed_time(text) if prefix else None
    if message.startswith("{"):
        pairs = _json_pairs(message)
    elif inner := _INNER.match(message):
        pairs = [item.partition("=")[::2] for item in inner[2].split(", ")]
    elif summary := _EPOCH.match(message):
        pairs = _summary_pairs(summary[2], logger)
    else:
        return None
    fields = {key.strip(): value for key, printed in pairs if (value := parse_number(printed)) is not None}
    left_out = sum(map(bool, (key.strip() for key, _ in pairs))) - len(fields)
    counter = next((key for key in fields if key.endswith("num_updates")), None)
    step = parse_step(str(fields.pop(counter))) if counter else None
    return Report(step, fields, time, max(left_out, 0)) if step is not None and fields else None


def _json_pairs(message: str) -> list[tuple[str, str]]:
    try:
        record = json.loads(message)
    except (ValueError, RecursionError):
        return []
    return [(str(key), str(value)) for key, value in record.items()] if isinstance(record, dict) else []


def _summary_pairs(printed: str, logger: str) -> list[tuple[str, str]]:
    """An epoch's end: keys get the prefix that the JSON form gives them, for they are other values than each step's."""
    subset = _SUBSET.search(printed)
    prefix = f"{subset[1]}_" if subset else f"{logger}_" if logger else "train_"
    pairs = [piece.strip().rpartition(" ")[::2] for piece in printed.split("|")]
    return [(f"{prefix}{key}", value) for key, value in pairs if key]


PARSER = one_line_parser("fairseq", read_line, endings=("}",), surest=0.95)
