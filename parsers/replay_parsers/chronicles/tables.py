"""Rows of tables that log what happened: a date in one of the first columns; steps, hours and losses in others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.dates import time_at_start
from replay_parsers.chronicles.markdown import Block
from replay_parsers.chronicles.numbers import whole
from replay_parsers.chronicles.phrases import hours

_I = re.IGNORECASE
_LOST_COLUMN = re.compile(r"\b(?:down ?time|outage|lost|loss of time|duration|wasted)\b|停机|损失|耗时", _I)
_TIME_COLUMN = re.compile(
    r"^\W*(?:(?:local )?time|hour|clock|uhrzeit|zeit|heure|at|时间|时刻)\W*(?:\([\w/+-]*\))?\W*$", _I
)
_PERSON_COLUMN = re.compile(
    r"^\W*(?:who|owner|by|author|name|on-?call|reported by|operator|负责人|值班人?|记录人)\W*$", _I
)
_FROM_COLUMN = re.compile(
    r"^\W*(?:(?:re-?start(?:ed)?|resum(?:ed|e)|re-?load(?:ed)?|load(?:ed)?|continued?|rolled back|back|"
    r"went back)\b.{0,20}|"
    r"from(?: step| iteration| ckpt| checkpoint)?|(?:checkpoint|ckpt|step) (?:loaded|used)|rollback (?:to|target)|"
    r"恢复.{0,6}|回滚.{0,6}|起始步?|重启.{0,6})\W*$",
    _I,
)
_REACHED_COLUMN = re.compile(
    r"^\W*(?:(?:steps?|iterations?|iter|updates?) ?(?:reached|at failure|at crash|at stop)?|reached(?: step|"
    r" iteration)?|"
    r"(?:stopped|crash(?:ed)?|fail(?:ed|ure)?|died|interrupted|broke)(?: (?:at|step|iteration|at step|at iteration))*|"
    r"last (?:step|iteration)|步数?|中断步?数?|故障步)\W*$",
    _I,
)
_NUMBER = re.compile(r"^~?\d[\d,_]*(?:\.\d+)?(?:k\d{0,3}|\s?万)?$")
_WORDS = re.compile(r"[A-Za-z]{3}|[\u4e00-\u9fff]|[A-Za-z]{2}.*\d")
_BARE_RESTART = re.compile(r"^\W*(?:re-?start(?:ed|ing)?|resum(?:ed?|ing)|re-?launch(?:ed)?|重启|恢复)\W*$", _I)
_TELLS_RESTART = re.compile(
    r"\b(?:re-?start|resum|rolled? ?back|roll back|reverted|re-?launch)\w*\b[^|]*\d{3}|(?:重启|恢复|回滚)", _I
)
_CHANGES = re.compile(r"→|->|=>|\bfrom \d|\b(?:switch|chang|lower|rais|increas|reduc|set|decay)\w*\b|改|降|升", _I)
_BEGINNING = re.compile(r"^\W*(?:start|launch|begin|first (?:start|launch)|开始|启动)\W*$", _I)


def _hours(name: str, cell: str) -> float | None:
    """The hours that a cell gives, by itself ("45 min") or by the name of its column ("Hours lost")."""
    if re.fullmatch(r"\d{1,4}(?:\.\d{1,3})?", cell):
        if re.search(r"\bhours?\b|\(h\)|小时", name, _I):
            return float(cell)
        if re.search(r"\bmin(?:utes?)?\b|分钟", name, _I):
            return float(cell) / 60
    return hours(cell)


def _step(names: Sequence[str], cells: Sequence[str], column: re.Pattern[str]) -> int | None:
    """The step in the first column of that name which holds one."""
    found = (
        whole(cell.lstrip("~"))
        for name, cell in zip(names, cells, strict=False)
        if column.match(name) and _NUMBER.match(cell)
    )
    return next((step for step in found if step is not None), None)


def dated_row(block: Block, *, day_first: bool = False) -> Block:
    """A table's row with its date and hour first, and what its other columns hold as sentences."""
    cells = [cell.strip() for cell in block.text.strip().strip("|").split("|")]
    dated = next((place for place, cell in enumerate(cells[:4]) if at_start(cell, day_first=day_first)), None)
    if dated is None:
        return block
    names = block.raw
    people = {place for place, name in enumerate(names) if _PERSON_COLUMN.match(name)}
    told = [
        cell
        for place, cell in enumerate(cells)
        if place != dated and place not in people and _WORDS.search(cell) and not time_at_start(cell)
    ]
    told = _with_steps(told, _step(names, cells, _FROM_COLUMN), _step(names, cells, _REACHED_COLUMN))
    for name, cell in zip(names, cells, strict=False):
        if not _LOST_COLUMN.search(name):
            continue
        if re.search(r"\bsteps?\b|步", name, _I) and (steps := whole(cell) if _NUMBER.match(cell) else None):
            told.append(f"Lost {steps} steps")
        elif lasted := _hours(name, cell):
            told = [text for text in told if text != cell]
            told.append(f"{'Lost' if 'lost' in name.lower() else 'Downtime'} {lasted:g} h")
    return replace(block, text=" | ".join([_moment(names, cells, dated, day_first), *told]))


def _moment(names: Sequence[str], cells: Sequence[str], dated: int, day_first: bool) -> str:
    """The date, with the hour that a column of its own holds."""
    printed = at_start(cells[dated], day_first=day_first)
    if printed is None or printed.hour is not None:
        return cells[dated]
    for name, cell in zip(names, cells, strict=False):
        if _TIME_COLUMN.match(name) and time_at_start(cell):
            return f"{cells[dated]} {cell}"
    return cells[dated]


def _with_steps(told: list[str], loaded: int | None, reached: int | None) -> list[str]:
    """What a row tells, with the step that was reached beside what was seen and the checkpoint in a sentence."""
    if loaded == 0 and any(_BEGINNING.match(cell) for cell in told):
        return ["Training started at step 0", *(cell for cell in told if not _BEGINNING.match(cell))]
    if reached is not None and told:
        bare = next((place for place, cell in enumerate(told) if _BARE_RESTART.match(cell)), None)
        place = next((place for place, cell in enumerate(told) if not cell.endswith(("?", "？"))), 0)
        if loaded is None and bare is not None:
            told[bare] += f" from step {reached}"
        elif loaded is None or not _CHANGES.search(told[place]) or re.search(r"spike|loss", told[place], _I):
            # What was seen stands before what was done about it: "loss spike, rolled back".
            seen, comma, done = (
                re.split(r"([,;])", told[place], maxsplit=1)
                if re.search(r"[,;]", told[place])
                else (told[place], "", "")
            )
            told[place] = f"{seen} at step {reached}{comma}{done}"
    if loaded and not any(_TELLS_RESTART.search(cell) for cell in told):
        told.append(f"Restarted from step {loaded}")
    return told
