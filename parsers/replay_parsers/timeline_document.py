"""YAML as a tree in which every value knows its line, so that a fault can be told with its place.

Only what people write by hand is accepted: mappings, lists and text.  Aliases, tags and keys that are no text are
faults, which also leaves no way to make a small file unfold into a large one.  What stands before a syntax error
is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

MAXIMUM_DEPTH = 12
# The items of a list right below the top (incidents) are kept or lost as a whole when the document breaks off.
_KEPT_WHEN_BROKEN_OFF = 2

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# YAML's own set of what may stand in a document; anything else would end the reading at once.
_NOT_PRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as written.  ``plain`` is true when it stood without quotation marks."""

    value: str
    line: int
    plain: bool = True

    @property
    def empty(self) -> bool:
        """Nothing, or one of YAML's words for nothing, was written."""
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


@dataclass(slots=True)
class Listing:
    """A list; ``line`` is where it begins."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """A mapping; ``key_lines`` says where each key stands."""

    line: int
    entries: dict[str, Node] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)


Node = Text | Listing | Mapping


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a document, and the line, counted from 1; ``breaks_off`` when nothing after it was read."""

    line: int
    message: str
    breaks_off: bool = False


@dataclass(slots=True)
class Document:
    """The tree (None when there is nothing to keep) and every fault met while building it."""

    root: Node | None = None
    faults: list[Fault] = field(default_factory=list)


def read_document(data: bytes) -> Document:
    """Build the tree of a YAML file's bytes.  Never raises for what is in them."""
    document = Document()
    text = _decode(data, document.faults)
    builder = _Builder(document)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if not builder.take(event):
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        said = " ".join(part for part in (error.context, error.problem) if part)
        document.faults.append(Fault(line, f"the YAML breaks off here: {said}; what stands before is kept", True))
    except (yaml.YAMLError, RecursionError) as error:
        document.faults.append(Fault(1, f"no readable YAML: {str(error) or 'too deeply nested'}", True))
    builder.close()
    document.faults.sort(key=lambda fault: fault.line)
    return document


def _decode(data: bytes, faults: list[Fault]) -> str:
    """The text of ``data``; each first byte or character of a line that cannot be text becomes a fault."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        faults.append(Fault(line, f"byte {error.start} is not UTF-8; save the file as UTF-8 (read as '\ufffd')"))
        text = data.decode("utf-8-sig", errors="replace")
    unprintable = _NOT_PRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        faults.append(
            Fault(line, f"character U+{ord(unprintable[0]):04X} may not stand in a text file (read as '\ufffd')")
        )
        text = _NOT_PRINTABLE.sub("\ufffd", text)
    return text


class _Builder:
    """Turns parse events into nodes with a stack of its own, so that no nesting exhausts Python's."""

    def __init__(self, document: Document) -> None:
        self._document = document
        # Open containers with the key under which each waits for its value (a mapping's next key).
        self._open: list[Listing | Mapping] = []
        self._keys: list[Text | None] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> bool:
        """Use one parse event.  False when reading should stop."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fault(line, "a second document begins here; one file holds one run, the first is kept")
                return False
        elif isinstance(event, yaml.AliasEvent):
            self._fault(line, f"alias *{event.anchor}: write the value out; what stands before is kept")
            return False
        elif isinstance(event, yaml.ScalarEvent):
            self._refuse_tag(event.tag, event.implicit[0] or event.implicit[1], line)
            self._place(Text(event.value, line, event.style is None or event.style == ""))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._refuse_tag(event.tag, event.implicit, line)
            if len(self._open) >= MAXIMUM_DEPTH:
                self._fault(line, f"nested deeper than {MAXIMUM_DEPTH} levels; what stands before is kept")
                return False
            self._open.append(Mapping(line) if isinstance(event, yaml.MappingStartEvent) else Listing(line))
            self._keys.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._keys.pop()
            self._place(self._open.pop())
        return True

    def close(self) -> None:
        """Keep what is complete of a document that breaks off."""
        while self._open:
            self._keys.pop()
            node = self._open.pop()
            if len(self._open) < _KEPT_WHEN_BROKEN_OFF:
                self._place(node)

    def _place(self, node: Node) -> None:
        """Put a finished node where it belongs: at the top, into a list, or as a mapping's key or value."""
        if not self._open:
            self._document.root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Listing):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = node if isinstance(node, Text) else Text("", node.line)
            return
        self._keys[-1] = None
        if key.value in parent.entries:
            first = parent.key_lines[key.value]
            self._fault(key.line, f"`{key.value}` is given twice; the first, on line {first}, is kept")
        elif key.value:
            parent.entries[key.value] = node
            parent.key_lines[key.value] = key.line
        else:
            self._fault(key.line, "a key must be text; it is left out with its value")

    def _refuse_tag(self, tag: str | None, implicit: bool, line: int) -> None:
        if tag is not None and not implicit:
            self._fault(line, f"tag {tag} is not allowed and is ignored: write the value without it")

    def _fault(self, line: int, message: str) -> None:
        self._document.faults.append(Fault(line, message))
