"""Exported chats: the name of who speaks before the hour, days as lines of their own."""

from __future__ import annotations

import re

from replay_parsers.chronicles import dates
from replay_parsers.chronicles.markdown import BlockKind, Document

_SPEAKER = re.compile(
    r"^\W{0,3}(?P<name>[A-Za-z\u4e00-\u9fff@][\w.@'-]{0,30}(?: [A-Z][\w.'-]{0,20}){0,2})[*_]{0,2}:?\s{1,4}[\[(|"
    r"·,]?\s?(?=\d)"
)
_BEHIND = re.compile(
    r"^\W{0,3}\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?[\])]?\s{0,3}[-–—]?\s{0,2}(?P<name><?@?[A-Za-z\u4e00-\u9fff][\w.-]{0,20}>?)\s?:\s",
    re.IGNORECASE,
)
_NAME = re.compile(r"^\W{0,3}<?@?[A-Za-z\u4e00-\u9fff][\w.-]{0,20}>?\s?:\s(?=\S)")
_FEW = 4


def speaker(text: str) -> int:
    """Where the hour begins in "dana 09:14 AM ..."; 0 where no name stands before one.

    >>> speaker("dana 09:14 AM all green"), speaker("09:14 all green"), speaker("restarted 3 nodes")
    (5, 0, 0)
    """
    found = _SPEAKER.match(text)
    if found is None:
        return 0
    clock = dates.time_at_start(text[found.end() :])
    return found.end() if clock is not None and clock[1] is not None else 0


def without_speaker(text: str) -> str:
    """What was said, without the name that stands before it: "ravi: node down"."""
    return _NAME.sub("", text)


def is_transcript(document: Document) -> bool:
    """Whether a book is a chat: a few names before many hours."""
    names: list[str] = []
    for section in document.sections:
        for block in section.blocks:
            if block.kind in (BlockKind.PARAGRAPH, BlockKind.BULLET) and (end := speaker(block.text)):
                names.append(block.text[:end].strip(" *_:[(").lower())
            elif behind := _BEHIND.match(block.text):
                names.append(behind["name"].lower())
    return len(names) >= _FEW and len(set(names)) * 3 <= len(names) * 2
