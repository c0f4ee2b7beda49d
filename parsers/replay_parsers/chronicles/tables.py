"""Rows of tables that log what happened: a date in one of the first columns, perhaps a step in another."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles.beginnings import at_start
from replay_parsers.chronicles.markdown import Block
from replay_parsers.chronicles.phrases import hours

_STEP_COLUMN = re.compile(r"^\W*(?:step|iteration|iter|update|步数?)s?\W*$", re.IGNORECASE)
_LOST_COLUMN = re.compile(r"\b(?:down ?time|outage|lost|duration)\b|停机|损失|耗时", re.IGNORECASE)
_NUMBER = re.compile(r"^\d[\d,_]*(?:\.\d+)?k?$")


def _hours(name: str, cell: str) -> float | None:
    """The hours that a cell gives, by itself ("45 min") or by the name of its column ("Hours lost")."""
    if re.search(r"\bhours?\b|\(h\)|小时", name, re.IGNORECASE) and re.fullmatch(r"\d{1,4}(?:\.\d{1,3})?", cell):
        return float(cell)
    return hours(cell)


def dated_row(block: Block, *, day_first: bool = False) -> Block:
    """A table's row with its date first, and its step, if a column holds one, beside what it says."""
    cells = [cell.strip() for cell in block.text.strip().strip("|").split("|")]
    dated = next((place for place, cell in enumerate(cells[:4]) if at_start(cell, day_first=day_first)), None)
    if dated is None:
        return block
    step = next(
        (
            cell
            for name, cell in zip(block.raw, cells, strict=False)
            if _STEP_COLUMN.match(name) and _NUMBER.match(cell)
        ),
        None,
    )
    told = [cell for cell in cells if re.search(r"[A-Za-z\u4e00-\u9fff]{3}", cell) and cell is not cells[dated]]
    if step and told:
        told[0] += f" at step {step}"
    for name, cell in zip(block.raw, cells, strict=False):
        if _LOST_COLUMN.search(name) and (lasted := _hours(name, cell)):
            told = [text for text in told if text != cell]
            told.append(f"{'Lost' if 'lost' in name.lower() else 'Downtime'} {lasted:g} h")
    return replace(block, text=" | ".join([cells[dated], *told]))
