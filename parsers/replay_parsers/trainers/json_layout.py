"""What Python hands to the compiled scanner of JSON lines: the byte offsets of int64 fields."""

from __future__ import annotations

from replay_parsers.machine_code import EntryPoints

SCANNER = EntryPoints("json-lines", "replay_parsers.trainers.json_scanner", {"scan": 1})

POSITION = 0
"""Address of the next line."""

END = 8
"""Address behind the last line, which ends in a line feed; another byte can be read there."""

NUMBERS = 16
"""How many numbers a line has."""

TEXTS = 24
"""Address of the texts around the numbers, one more than these: each its length as int64, and its bytes."""

VALUES = 32
"""Address at which the numbers are stored as float64."""

FIELDS = 5
