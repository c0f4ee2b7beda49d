"""Which tag measures what: the tag names of every trainer -> replay's canonical signals.

The table is :file:`signals.yaml`; a file of the same form adds to it (:func:`load`).  Patterns are plain text with
``*``: nothing in them is ever compiled to a regular expression, so no pattern and no tag can make matching slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeVar

from replay.errors import ReplayError
from replay.signal_files import Sections, normalise, read_sections

__all__ = ["SignalTable", "SignalTableError", "axis_of", "best_tags", "builtin", "load", "signal_of", "tags_for"]

STEP_AXIS = "step"
_BUILT_IN = Path(__file__).with_name("signals.yaml")

_Owner = TypeVar("_Owner")

_Shape = tuple[tuple[str, str | None], ...]
"""A pattern's components: what stands before the first ``*`` and what behind it, None where there is none."""


class SignalTableError(ReplayError):
    """A table of signals that cannot be used; ``faults`` lists each as ``file:line: what is wrong``."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One spelling of a signal.  ``rank`` counts from 0, the preferred first."""

    signal: str
    text: str
    rank: int


@dataclass(frozen=True)
class SignalTable:
    """The patterns of one or several files, in order of precedence."""

    neutral: frozenset[str] = frozenset()
    axes: tuple[tuple[str, str], ...] = ()
    not_signals: tuple[str, ...] = ()
    exact: Mapping[str, _Pattern] = field(default_factory=dict)
    globs: tuple[_Pattern, ...] = ()
    names: tuple[str, ...] = ()
    """The signals that the table knows; one that ends in ``/*`` stands for its components."""

    def axis_of(self, tag: str) -> str:
        """What the tag is plotted against: ``step``, or ``samples``, ``tokens``, ``seconds``, ``epochs``."""
        return self._axis_of(normalise(tag).split("/"))

    def signal_of(self, tag: str) -> str | None:
        """The canonical signal that ``tag`` measures step by step, or None."""
        found = self._find(tag)
        return found[0] if found else None

    def tags_for(self, signal: str, tags: Iterable[str]) -> list[str]:
        """Those of ``tags`` that measure ``signal``, the preferred first."""
        ranked = [(found[1], tag) for tag in dict.fromkeys(tags) if (found := self._find(tag)) and found[0] == signal]
        return [tag for _, tag in sorted(ranked)]

    def best_tags(self, tags: Iterable[str]) -> dict[str, str]:
        """For every signal that ``tags`` measure, the one preferred tag."""
        best: dict[str, tuple[int, str]] = {}
        for tag in dict.fromkeys(tags):
            found = self._find(tag)
            if found and (found[0] not in best or (found[1], tag) < best[found[0]]):
                best[found[0]] = (found[1], tag)
        return {signal: tag for signal, (_, tag) in sorted(best.items())}

    def knows(self, signal: str) -> bool:
        """Whether ``signal`` is one that this table can find."""
        components = signal.split("/")
        return any(_captured(_shape(name), components) is not None for name in self.names)

    def _axis_of(self, components: Sequence[str]) -> str:
        for axis, shape in self._axis_shapes.get(len(components), ()):
            if _captured(shape, components) is not None:
                return axis
        return STEP_AXIS

    # Runs with a hundred thousand tags are looked through as a whole, so patterns are taken apart once, and a tag
    # meets only those with as many components as it has.

    @cached_property
    def _axis_shapes(self) -> dict[int, list[tuple[str, _Shape]]]:
        return _by_length(self.axes)

    @cached_property
    def _refused_shapes(self) -> dict[int, list[tuple[str, _Shape]]]:
        return _by_length((pattern, pattern) for pattern in self.not_signals)

    @cached_property
    def _glob_shapes(self) -> dict[int, list[tuple[_Pattern, _Shape]]]:
        return _by_length((pattern, pattern.text) for pattern in self.globs)

    def _find(self, tag: str) -> tuple[str, int] | None:
        spelling = normalise(tag)
        components = spelling.split("/")
        if self._axis_of(components) != STEP_AXIS:
            return None
        for _, shape in self._refused_shapes.get(len(components), ()):
            if _captured(shape, components) is not None:
                return None
        # The whole name first: `validation/loss` must be found before `loss`.
        candidates = self._candidates(spelling)
        for candidate in candidates:
            exact = self.exact.get(candidate)
            if exact is not None:
                return exact.signal, exact.rank
        for candidate in candidates:
            components = candidate.split("/")
            for pattern, shape in self._glob_shapes.get(len(components), ()):
                captured = _captured(shape, components)
                if captured is not None:
                    return pattern.signal.replace("*", captured), pattern.rank
        return None

    def _candidates(self, spelling: str) -> list[str]:
        """The spelling, then without its leading neutral words, one after the other."""
        components = spelling.split("/")
        candidates = [spelling]
        start = 0
        while start < len(components) - 1:
            pair = "/".join(components[start : start + 2])
            if components[start] in self.neutral:
                start += 1
            elif pair in self.neutral and start < len(components) - 2:
                start += 2
            else:
                break
            candidates.append("/".join(components[start:]))
        return candidates


def _shape(pattern: str) -> _Shape:
    shape = []
    for part in pattern.split("/"):
        head, star, tail = part.partition("*")
        shape.append((head, tail if star else None))
    return tuple(shape)


def _by_length(patterns: Iterable[tuple[_Owner, str]]) -> dict[int, list[tuple[_Owner, _Shape]]]:
    """The patterns, each with what it belongs to, by their number of components."""
    by_length: dict[int, list[tuple[_Owner, _Shape]]] = {}
    for owner, pattern in patterns:
        shape = _shape(pattern)
        by_length.setdefault(len(shape), []).append((owner, shape))
    return by_length


def _captured(shape: _Shape, given: Sequence[str]) -> str | None:
    """What the first ``*`` stands for when a pattern fits the components ``given`` (``""`` without one), or None.

    ``*`` stands for a run of at least one character within one component.
    """
    if len(shape) != len(given):
        return None
    captured: str | None = None
    for (head, tail), component in zip(shape, given, strict=True):
        if tail is None:
            if head != component:
                return None
        elif len(component) <= len(head) + len(tail) or not (component.startswith(head) and component.endswith(tail)):
            return None
        else:
            captured = captured or component[len(head) : len(component) - len(tail)]
    return captured or ""


def load(paths: Iterable[str | Path] = (), *, with_builtin: bool = True) -> SignalTable:
    """The table of ``paths``, earlier files first, before the built-in one.

    Raises :class:`SignalTableError` that lists every fault of every file, and :class:`OSError` for a file that
    cannot be opened.
    """
    faults: list[str] = []
    files = [Path(path) for path in paths] + ([_BUILT_IN] if with_builtin else [])
    documents = [read_sections(path, faults) for path in files]
    if faults:
        raise SignalTableError(faults)
    return _merge(documents)


@lru_cache(maxsize=1)
def builtin() -> SignalTable:
    """The table that comes with replay."""
    return load()


def signal_of(tag: str, table: SignalTable | None = None) -> str | None:
    """The canonical signal that ``tag`` measures step by step, or None.

    >>> signal_of("lm-loss-training/lm loss"), signal_of("loss-scale/loss-scale")
    ('loss', 'loss_scale')
    >>> signal_of("lm-loss-training/lm loss vs samples") is None
    True
    """
    return (table or builtin()).signal_of(tag)


def tags_for(signal: str, tags: Iterable[str], table: SignalTable | None = None) -> list[str]:
    """Those of ``tags`` that measure ``signal``, the preferred first."""
    return (table or builtin()).tags_for(signal, tags)


def best_tags(tags: Iterable[str], table: SignalTable | None = None) -> dict[str, str]:
    """For every signal that ``tags`` measure, the one preferred tag."""
    return (table or builtin()).best_tags(tags)


def axis_of(tag: str, table: SignalTable | None = None) -> str:
    """What ``tag`` is plotted against: ``step``, or ``samples``, ``tokens``, ``seconds``, ``epochs``."""
    return (table or builtin()).axis_of(tag)


def _merge(files: Sequence[Sections]) -> SignalTable:
    exact: dict[str, _Pattern] = {}
    globs: list[_Pattern] = []
    ranks: dict[str, int] = {}
    refused: list[str] = []
    for sections in files:
        # What an earlier file names as a signal stays one.
        claimed = set(exact) | {pattern.text for pattern in globs}
        refused += [name for name in sections.not_signals if name not in claimed]
        for signal, patterns in sections.signals.items():
            for text in patterns:
                rank = ranks[signal] = ranks.get(signal, -1) + 1
                pattern = _Pattern(signal, text, rank)
                if "*" in text:
                    globs.append(pattern)
                else:
                    exact.setdefault(text, pattern)
    # A pattern with more plain text says more: `eval_*_loss` is asked before `*_loss`.
    globs.sort(key=lambda pattern: -len(pattern.text.replace("*", "")))
    return SignalTable(
        neutral=frozenset(name for sections in files for name in sections.neutral),
        axes=tuple(entry for sections in files for entry in sections.axes),
        not_signals=tuple(refused),
        exact=exact,
        globs=tuple(globs),
        names=tuple(ranks),
    )
