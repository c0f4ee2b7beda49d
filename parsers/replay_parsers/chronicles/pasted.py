"""What people paste into logbooks as code: log lines, edits of scripts, settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from replay_parsers.chronicles import options
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.markdown import Block
from replay_parsers.chronicles.phrases import flags
from replay_parsers.records import EventKind
from replay_parsers.trainers.megatron import LoggedRecord, records_in

K = EventKind

_EDIT = re.compile(r"\b(?:perl\s+-p\S*|sed)\s+-")
_SETTING = re.compile(
    r"^\s*[+]?\s*(?:--[A-Za-z][\w-]*(?:[ =]+[^\s\\]+)*(?:\s+--[A-Za-z][\w-]*(?:[ =]+[^\s\\]+)*)*|"
    r"[A-Z][A-Z0-9_]+=[\w.+-]+)\s*\\?\s*(?:\(.*\))?$"
)
_EXCLUDED = re.compile(r"\B--exclude[= ](?P<nodes>[\w\[\],.-]{1,80})")
_RECORD = re.compile(r"iteration\s{1,40}\d{1,18}\s{0,40}/")
# A longer list of options is a configuration shown in full, not what was changed.
_MOST_SETTINGS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a block of code says: log ``records``, ``drafts`` of changes, and how many lines are neither."""

    records: tuple[LoggedRecord, ...] = ()
    drafts: tuple[Draft, ...] = ()
    other: int = 0


def read_code(block: Block) -> Code:
    """Read one block of code; records and drafts carry the lines of the file."""
    lines = block.raw
    records: list[LoggedRecord] = []
    if any(_RECORD.search(line) for line in lines):
        records = [replace(record, line=record.line + block.line - 1) for record in records_in("\n".join(lines))]
    settings = [line for line in lines if line.strip() and _SETTING.match(line)]
    only_settings = 0 < len(settings) <= _MOST_SETTINGS and len(settings) == sum(1 for line in lines if line.strip())
    drafts: list[Draft] = []
    for number, line in enumerate(lines, start=block.line):
        found = _of_line(line[:2000], settings_block=only_settings)
        drafts.extend(replace(draft, line=number, quote=line.strip()[:300]) for draft in found)
    other = (
        sum(1 for line in lines if line.strip())
        - len({record.line for record in records})
        - len({draft.line for draft in drafts})
    )
    return Code(records=tuple(records), drafts=tuple(drafts), other=max(other, 0))


def _of_line(line: str, *, settings_block: bool) -> list[Draft]:
    if _EDIT.search(line):
        if (step := options.pointed_at(line)) is not None:
            return [Draft(kind=K.ROLLBACK, step=step)]
        return options.from_substitution(line)
    if excluded := _EXCLUDED.search(line):
        return [Draft(kind=K.NODE_REPLACEMENT, detail={"node": excluded["nodes"]})]
    if not settings_block:
        return []
    return [draft for flag in flags(line) for draft in options.from_flag(flag)]
