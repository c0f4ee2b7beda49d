"""What a parser is, and how the right one is found.

A parser is a :class:`Parser`: a name, a function that says from a :class:`Sample` of the content how sure it is
that the file is its own, and a function that reads the file as a stream of :class:`Records`.  Other packages
add theirs through the entry point group ``replay_parsers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay_parsers.records import Records

ENTRY_POINT_GROUP = "replay_parsers"

Watch = Callable[[int, memoryview], None]
"""Is told where in a file bytes were read, and which: those that lie there, compressed if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The beginning of a file, from which its format is told.

    ``head`` holds the first :data:`replay_parsers.files.SAMPLE_BYTES` bytes, decompressed; ``whole`` says
    whether that is all there is.
    """

    path: Path
    head: bytes
    whole: bool

    @property
    def text(self) -> str:
        """The head as text; bytes that are not UTF-8 become the replacement character."""
        return self.head.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read: ``path``, from byte ``start`` of the decompressed file, with the ``state`` of the reading
    that ended there.  ``source`` is the name that records carry; ``run`` the run they belong to where the file
    itself does not say.  ``watch`` may be handed to :func:`replay_parsers.files.open_bytes`, for whoever asks to see
    the bytes that are read.
    """

    path: Path
    source: str
    run: str
    start: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    watch: Watch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """One format.

    ``recognise`` returns a confidence between 0 and 1 from the content, never from the name alone.  ``read``
    never raises for what is in the file: it returns problems.  It may raise :class:`OSError`.
    ``appends`` tells a log that grows at its end from a document that is edited as a whole (a timeline, a
    JSON file): a document is always read from its beginning, and a changed one replaces what it said before.
    ``surest`` is the most confidence that it ever has: it is not asked where another parser has as much.
    """

    name: str
    recognise: Callable[[Sample], float]
    read: Callable[[Request], Iterator[Records]]
    appends: bool = True
    surest: float = 1.0
