"""What must not be judged against each other: the lists of a book, its branches, and stretches of another speed."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from replay.history.audit.book import BACK, Entry, Moment, Telling
from replay.history.audit.order import heaviest_in_order
from replay.history.audit.passages import Passage
from replay_parsers.kinds import EventKind
from replay_parsers.records import Run

_BRANCH = re.compile(
    r"\b(?:run|branch|fork|arm|variant|replica|trial)[ -]?(?P<name>[A-Z]|#?\d{1,2}|[A-Z]\d{1,2})\b(?![.,]?\d)"
    r"|(?:分支|支线)\s?(?P<zh>[A-Za-z]|\d{1,2})",
)
_PREFIX = re.compile(
    r"^[\W_]*(?:run |branch )?\[?(?P<name>[A-Z]\d{0,2}|[a-z]+[-_]?[A-Z\d]{1,3}|[A-Z]{1,4}-\d{1,3})\]?:\s"
)
_TIME = re.compile(
    r"^.{0,12}?(?:\d{1,2}[:：]\d\d(?:[:：]\d\d)?\s?(?:[ap]m\b)?(?:\s?(?:UTC|[A-Z]{2,4})\b)?)", re.IGNORECASE
)
_DATE = re.compile(r"^[\W_]*(?:\d[\d./年月日-]*\d[日]?)[\sT]*")
_FORKS = re.compile(
    r"\b(?:branched off|forked (?:off|from|a|the run)|(?:second|two|both) (?:runs|branch|branches)|runs? in parallel)\b"
    r"|分叉|并行训练|两个分支",
    re.IGNORECASE,
)
_SPEED = re.compile(
    r"\b(?:through[- ]?put|tflops?|tokens?/s\w*|samples/s\w*|(?:step|iteration) times?|training speed)\b[^.\n]{0,60}?"
    r"(?:\bdoubled|\btripled|\bhalved|\bup\b|\brose|\bincreas|\bimprov|\bfrom \S+ to\b|->|→|\bdropped|\bdown to\b)"
    r"|\b\d+(?:\.\d+)?\s?(?:x|×|times|%)\s(?:faster|slower|quicker|speed-?up)"
    r"|\bflash[- ]?attention|\bfaster kernels?|\bfused kernels?|\b(?:sped|speeds?) (?:it |things |training )?up\b"
    r"|\bspeed-?up\b|\b(?:training|steps?|iterations?|it|runs?) (?:\w+ ){0,4}(?:faster|quicker|slower)\b"
    r"|\b(?:from )?\d+ (?:to|->|→) \d+ (?:nodes|gpus|hosts)\b"
    r"|\b(?:nodes|gpus|hosts) (?:\w+ ){0,2}from \d+ to \d+"
    r"|\b(?:added|adding|gained|lost|moved to|now on|grew to|scaled (?:up |down )?to) \d+"
    r" (?:more )?(?:nodes|gpus|hosts)\b"
    r"|\bbatch[- ]?(?:size )?(?:ramp|warm-?up)|\b(?:sequence|context) length\b[^.\n]{0,40}\b(?:from|to)\b"
    r"|提速|加速|变快|更快|吞吐[^。\n]{0,20}(?:翻倍|提升|提高|增|从)|节点[^。\n]{0,12}(?:增加|扩|减)"
    r"|增加到?\s?\d+\s?(?:个|台)?节点",
    re.IGNORECASE,
)
_SLOWER = re.compile(r"\b(?:slower|dropped|down|halved|lost|fewer|slowed)\b|减", re.IGNORECASE)
_SPEED_KINDS = (EventKind.BATCH_SIZE_CHANGE, EventKind.TOPOLOGY_CHANGE, EventKind.PRECISION_CHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """Entries that tell of one course of training, in the order in which it went.

    ``name`` is that of the branch, empty for the only one.  ``speeds`` counts for each entry, by its number, how often
    the speed may have changed when training came to what it tells, and when it went on from there.  ``open`` are the
    entries of which it is not said to which branch they belong.
    """

    telling: Telling
    name: str = ""
    speeds: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    open: frozenset[int] = frozenset()

    def reached_at(self, entry: Entry) -> int:
        """The stretch of one speed at whose end, or within which, training came to what ``entry`` tells."""
        return self.speeds.get(entry.number, (0, 0))[0]

    def going_on_at(self, entry: Entry) -> int:
        """The stretch of one speed in which training went on from ``entry``."""
        return self.speeds.get(entry.number, (0, 0))[1]


def chronological(telling: Telling) -> Telling:
    """``telling`` with the oldest entry first; many books have the newest on top."""
    backward = telling.entries[::-1]
    if not 2 * _disorder(backward) < _disorder(telling.entries):
        return telling
    return replace(telling, entries=tuple(replace(entry, number=number) for number, entry in enumerate(backward)))


def lists(telling: Telling, told: Mapping[int, Passage]) -> list[list[Entry]]:
    """The entries list by list; lists of one sort that follow each other in time are one."""
    found: list[list[Entry]] = []
    for entries in telling.by_source().values():
        sections: dict[tuple[str, int], list[Entry]] = {}
        for entry in entries:
            passage = told.get(entry.number)
            key = ("", 0) if passage is None else (passage.group, passage.section)
            sections.setdefault(key, []).append(entry)
        joined: dict[str, list[list[Entry]]] = {}
        for (group, _), one in sections.items():
            before = joined.setdefault(group, [])
            if before and _follow(before[-1], one):
                before[-1] = [*before[-1], *one]
            else:
                before.append(one)
        found += [one for several in joined.values() for one in several]
    return found


def _follow(earlier: Sequence[Entry], later: Sequence[Entry]) -> bool:
    """Whether the second list goes on where the first ends."""
    return _disorder([*earlier, *later]) <= _disorder(earlier) + _disorder(later)


def _disorder(entries: Sequence[Entry]) -> int:
    moments: list[Moment] = [entry.printed for entry in entries if entry.printed is not None]
    return len(moments) - len(heaviest_in_order(moments, [1] * len(moments)))


def strands(telling: Telling, told: Mapping[int, Passage]) -> list[Strand]:
    """The courses of training that a book tells of: list by list, and branch by branch where entries name theirs.

    A curated timeline is of one run, whatever the sources that its entries cite one after the other.
    """
    found = []
    for entries in [_merged(telling.by_source().values())] if telling.curated else lists(telling, told):
        names = _interleaved([branch_of(entry, told.get(entry.number)) for entry in entries])
        texts = _texts(entries, told)
        speeds = _speeds(telling.run, entries, texts, told)
        forks = [place for place, text in enumerate(texts) if _FORKS.search(text)]
        loose = entries[forks[0] :] if forks and not any(names) and not telling.curated else []
        for name in dict.fromkeys(names):
            own = tuple(entry for entry, called in zip(entries, names, strict=True) if called == name)
            found.append(
                Strand(
                    telling=replace(telling, entries=own),
                    name=name,
                    speeds=speeds,
                    open=frozenset(entry.number for entry in loose),
                )
            )
    return found


def _merged(sources: Iterable[Sequence[Entry]]) -> list[Entry]:
    """Entries of several sources in the order of time, those of each in its own order."""
    keyed = []
    for entries in sources:
        last = datetime.min.replace(tzinfo=UTC)
        own = []
        for entry in entries:
            last = max(last, entry.printed.earliest) if entry.printed is not None else last
            own.append((last, entry.number, entry))
        keyed.append(own)
    return [entry for _, _, entry in heapq.merge(*keyed, key=lambda one: one[:2])]


def _interleaved(names: Sequence[str]) -> list[str]:
    """The names of branches that go on beside each other; others number one run's attempts, one after the other."""
    order = [name for name in names if name]
    turns = [name for place, name in enumerate(order) if place == 0 or order[place - 1] != name]
    counts = Counter(order)
    if len(turns) == len(set(turns)):
        return [""] * len(names)
    return [name if counts[name] > 1 else "" for name in names]


def branch_of(entry: Entry, passage: Passage | None) -> str:
    """The branch that an entry names: before a colon in its heading ("B: node failure"), or in words ("run B")."""
    heading = entry.locator.removeprefix("§").strip()
    title = _TIME.sub("", _DATE.sub("", heading), count=1).strip(" -–—*")
    if prefix := _PREFIX.match(title):
        return prefix["name"].lower()
    text = title if passage is None else f"{title}\n{passage.own}"
    names = {(found["name"] or found["zh"]).lower().lstrip("#") for found in _BRANCH.finditer(text)}
    return names.pop() if len(names) == 1 else ""


def _texts(entries: Sequence[Entry], told: Mapping[int, Passage]) -> list[str]:
    return [
        told[entry.number].own
        if entry.number in told
        else "\n".join(f"{event.text}\n{event.detail.get('quote', '')}" for event in entry.events)
        for entry in entries
    ]


def _speeds(
    run: Run, entries: Sequence[Entry], texts: Sequence[str], told: Mapping[int, Passage]
) -> dict[int, tuple[int, int]]:
    """How often the speed may have changed up to each entry, and from it on, by what is said there.

    What an event changes holds from where training goes on; what is only mentioned may have held before.  Where the
    time of a step is stated only what makes steps faster counts, and the time at full batch holds from there on.
    """
    full = run.batch_schedule[-1].from_step if run.seconds_per_step and run.batch_schedule else None
    count, found = 0, {}
    pending = False
    for entry, text in zip(entries, texts, strict=True):
        mentioned = pending or _mentions(text, stated=run.seconds_per_step is not None)
        changed = any(full is None or event.step is None or event.step > full for event in entry.of_kind(*_SPEED_KINDS))
        restarted = bool(entry.of_kind(*BACK)) and not pending
        came = count + (mentioned and not restarted)
        count += mentioned or changed
        found[entry.number] = (came, count)
        passage = told.get(entry.number)
        pending = passage is not None and _mentions(passage.rest, stated=run.seconds_per_step is not None)
    return found


def _mentions(text: str, *, stated: bool) -> bool:
    """Whether ``text`` speaks of another speed; of a faster one, where the time of a step is ``stated``."""
    return any(not stated or not _SLOWER.search(found[0]) for found in _SPEED.finditer(text))
