"""The text of one entry of a logbook, before it is read."""

from __future__ import annotations

from dataclasses import dataclass

from replay_parsers.chronicles.dates import PrintedTime
from replay_parsers.chronicles.markdown import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One entry's text: ``heading`` as printed (its locator), ``title`` what it says beside the date, ``label`` the
    end of the incident's id, ``group`` the list that it stands in (entries of one list follow each other in time),
    ``blocks`` what stands below; ``spoken`` marks what is said bit by bit (a chat, "T+20 min: ..."), where several
    entries tell one trouble."""

    heading: str
    title: str
    label: str
    line: int
    printed: PrintedTime | None
    group: int = 0
    blocks: tuple[Block, ...] = ()
    spoken: bool = False
