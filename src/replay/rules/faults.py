"""What is wrong with a rule file: every fault with its file and line, gathered rather than thrown one by one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from replay.errors import ReplayError
from replay_parsers.timeline_document import Mapping, Node, Text


class RuleFileError(ReplayError):
    """A rule file that cannot be used; ``faults`` lists each as ``file:line: what is wrong``."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


def suggestion(word: str, words: Iterable[str]) -> str:
    """`; did you mean ...?` where one of ``words`` is close."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


class Faults:
    """The faults of one file; nodes are read through it, so that each fault has its line."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        self._path = path
        self._faults = faults

    def add(self, line: int, message: str) -> None:
        """Note a fault; line 0 stands for the file as a whole."""
        place = f"{self._path}:{line}" if line else str(self._path)
        self._faults.append(f"{place}: {message}")

    def text(self, node: Node, name: str) -> str:
        """A node that must be text."""
        if isinstance(node, Text) and not node.empty:
            return node.value
        self.add(node.line, f"`{name}` must be text")
        return ""

    def number(self, node: Node, name: str, *, low: float, high: float, whole: bool = False) -> float | None:
        """A node that must be a number from ``low`` to ``high``."""
        try:
            value = float(self.text(node, name))
        except ValueError:
            self.add(node.line, f"`{name}` must be a number")
            return None
        if whole and not value.is_integer():
            self.add(node.line, f"`{name}` must be a whole number")
            return None
        if not low <= value <= high:
            self.add(node.line, f"`{name}` is {value:g}; it must lie between {low:g} and {high:g}")
            return None
        return value

    def keys(self, node: Mapping, known: Sequence[str]) -> None:
        """Every key must be one of ``known``."""
        for key in node.entries:
            if key not in known:
                hint = suggestion(key, known) or f"; expected {', '.join(known)}"
                self.add(node.key_lines[key], f"unknown field `{key}`{hint}")
