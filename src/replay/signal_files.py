"""Reading a table of signals (see :file:`signals.yaml`): every fault is told with its file and line."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from replay_parsers.timeline_document import Listing, Node, Text, read_document
from replay_parsers.timeline_document import Mapping as Tree

MAXIMUM_PATTERN = 200
_SECTIONS = ("neutral", "axes", "not_signals", "signals")
_FIELDS = ("meaning", "unit", "tags")


@dataclass
class Sections:
    """One file's entries, each pattern checked."""

    neutral: list[str] = field(default_factory=list)
    axes: list[tuple[str, str]] = field(default_factory=list)
    not_signals: list[str] = field(default_factory=list)
    signals: dict[str, list[str]] = field(default_factory=dict)


@lru_cache(maxsize=65_536)
def normalise(tag: str) -> str:
    """The one spelling in which tags are compared.

    >>> normalise("lm-loss-training/lm loss vs samples")
    'lm_loss_training/lm_loss_vs_samples'
    >>> normalise("Loss-scale/loss_scale")
    'loss_scale'
    >>> normalise("earnest-sun-3 - train/loss")
    'train/loss'
    """
    # A plot exported from a web interface names its run before the tag.
    tag = tag.rpartition(" - ")[2] or tag
    components: list[str] = []
    for component in tag.casefold().split("/"):
        letters = "".join(character if character.isalnum() else " " for character in component)
        spelled = "_".join(letters.split())
        if spelled and spelled != (components[-1] if components else None):
            components.append(spelled)
    return "/".join(components)


class _Reader:
    """Walks one file's tree and notes every fault with its line."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        self._path = path
        self._faults = faults
        self.sections = Sections()

    def fault(self, line: int, message: str) -> None:
        self._faults.append(f"{self._path}:{line}: {message}")

    def read(self) -> Sections:
        document = read_document(self._path.read_bytes())
        for fault in document.faults:
            self.fault(fault.line, fault.message)
        root = document.root
        if not isinstance(root, Tree):
            self.fault(root.line if root else 1, f"expected the sections {', '.join(_SECTIONS)}")
            return self.sections
        for name, node in root.entries.items():
            if name == "signals":
                self._signals(node)
            elif name == "axes":
                self._axes(node)
            elif name == "neutral":
                self.sections.neutral += self._patterns(node, stars=False)
            elif name == "not_signals":
                self.sections.not_signals += self._patterns(node)
            else:
                self.fault(root.key_lines[name], f"unknown section `{name}`; expected one of {', '.join(_SECTIONS)}")
        return self.sections

    def _signals(self, node: Node) -> None:
        if not isinstance(node, Tree):
            self.fault(node.line, "`signals` maps the name of a signal to its meaning, unit and tags")
            return
        for signal, entry in node.entries.items():
            line = node.key_lines[signal]
            if signal.count("*") > 1 or ("*" in signal and not signal.endswith("/*")):
                self.fault(line, f"signal `{signal}`: a `*` may only be its last component")
                continue
            if not isinstance(entry, Tree):
                self.fault(line, f"signal `{signal}` needs `tags`, a list of names")
                continue
            for name in entry.entries:
                if name not in _FIELDS:
                    self.fault(entry.key_lines[name], f"unknown field `{name}`; expected {', '.join(_FIELDS)}")
            if "tags" not in entry.entries:
                self.fault(line, f"signal `{signal}` needs `tags`, a list of names")
                continue
            patterns = self._patterns(entry.entries["tags"])
            self.sections.signals.setdefault(signal, []).extend(patterns)
            if (
                signal.endswith("*")
                and (plain := [text for text in patterns if "*" not in text])
                and signal != "loss/*"
            ):
                self.fault(line, f"signal `{signal}`: {plain[0]} has no `*` to name the component")

    def _axes(self, node: Node) -> None:
        if not isinstance(node, Tree):
            self.fault(node.line, "`axes` maps the name of an axis to a list of tags")
            return
        for axis, entry in node.entries.items():
            self.sections.axes += [(axis, pattern) for pattern in self._patterns(entry)]

    def _patterns(self, node: Node, *, stars: bool = True) -> list[str]:
        if not isinstance(node, Listing):
            self.fault(node.line, "expected a list of tag names")
            return []
        return [text for item in node.items if (text := self._pattern(item, stars=stars)) is not None]

    def _pattern(self, item: Node, *, stars: bool) -> str | None:
        if not isinstance(item, Text) or item.empty:
            self.fault(item.line, "expected the name of a tag")
            return None
        if len(item.value) > MAXIMUM_PATTERN:
            self.fault(item.line, f"a tag name of {len(item.value)} characters; at most {MAXIMUM_PATTERN}")
            return None
        if "*" in item.value and not stars:
            self.fault(item.line, f"`{item.value}`: no `*` here")
            return None
        if any(component.count("*") > 1 for component in item.value.split("/")):
            self.fault(item.line, f"`{item.value}`: at most one `*` between two slashes")
            return None
        spelled = "/".join(_spell(component) for component in item.value.split("/"))
        if not spelled.replace("/", ""):
            self.fault(item.line, f"`{item.value}` holds no letter or digit")
            return None
        return spelled


def _spell(component: str) -> str:
    """A component of a pattern in the spelling of tags, its ``*`` kept and what touches it kept apart by ``_``."""
    head, star, tail = component.partition("*")
    if not star:
        return normalise(component)
    before, after = normalise(head), normalise(tail)
    joined_before = "_" if before and not head[-1].isalnum() else ""
    joined_after = "_" if after and not tail[0].isalnum() else ""
    return f"{before}{joined_before}*{joined_after}{after}"


def read_sections(path: Path, faults: list[str]) -> Sections:
    """The entries of one table; what is wrong with it is added to ``faults``.  Raises :class:`OSError`."""
    return _Reader(path, faults).read()
