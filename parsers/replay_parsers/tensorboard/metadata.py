"""What an event file says of the run's configuration: text summaries and hyper-parameters, as text of bounded size.

Nothing of it is ever executed or evaluated.  Of a text tag the first text is kept (trainers write their
configuration once; later ones are samples of output), of the hyper-parameters every one.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replay_parsers.tensorboard.layout import BYTES, FIXED64, VARINT
from replay_parsers.tensorboard.messages import Field, as_text, fields, of_number

LONGEST_TEXT = 16_384
"""Characters kept of one text."""
LONGEST_METADATA = 262_144
"""Characters kept of all texts of a file together."""
MOST_ENTRIES = 4096
LONGEST_HPARAMS = 4 << 20
"""Bytes of hyper-parameters that are read of one value."""

_DECODED_AT_A_TIME = 1 << 16

_DEEPEST = 8
_STATUS = {1: "success", 2: "failure", 3: "running"}

# Field numbers: summary.proto, tensor.proto, struct.proto, and plugin_data.proto of TensorBoard's hparams plugin.
_VALUE_TENSOR, _VALUE_METADATA = 8, 9
_TENSOR_STRINGS = 8
_PLUGIN_DATA, _PLUGIN_NAME, _PLUGIN_CONTENT = 1, 1, 2
_EXPERIMENT, _SESSION_START, _SESSION_END = 2, 3, 4


class RunMetadata:
    """Collects entries up to the bounds, and gives out the new ones of each piece."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._characters = int(state.get("characters", 0))
        self._entries = int(state.get("entries", 0))
        self._new: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        """Keep ``text`` under ``name``, shortened where it is too long, and say so in it."""
        self._add_pieces(name, [text])

    def _add_pieces(self, name: str, pieces: Iterable[str]) -> None:
        room = max(0, min(LONGEST_TEXT, LONGEST_METADATA - self._characters))
        if self._entries >= MOST_ENTRIES:
            return
        kept: list[str] = []
        length = 0
        for piece in pieces:
            if length < room:
                kept.append(piece[: room - length])
            length += len(piece)
        if length > room:
            kept.append(f"… ({length - room} more characters)")
        self._characters += min(length, room)
        self._entries += 1
        self._new[name if len(name) <= 512 else name[:512] + "…"] = "".join(kept)

    def add_text(self, tag: str, value: bytes | memoryview) -> None:
        """Keep the strings of a text summary, given as its Value message.

        Raises :class:`~replay_parsers.tensorboard.messages.MalformedMessageError`.
        """
        self._add_pieces(f"text/{tag}", _text_pieces(value))

    def add_hparams(self, value: bytes | memoryview) -> None:
        """Keep the hyper-parameters that a Value message of the hparams plugin carries.

        Raises :class:`~replay_parsers.tensorboard.messages.MalformedMessageError`.
        """
        if len(value) > LONGEST_HPARAMS:
            self.add("hparams", f"… ({len(value)} bytes, more than the {LONGEST_HPARAMS} that are read)")
            return
        for content in _plugin_contents(value):
            for field in fields(content):
                if field.kind != BYTES:
                    continue
                if field.number == _SESSION_START:
                    self._add_session(field.content)
                elif field.number == _EXPERIMENT:
                    self._add_named(field.content, {6: "experiment", 1: "description", 2: "user"})
                elif field.number == _SESSION_END:
                    for status in fields(field.content):
                        if status.number == 1 and status.kind == VARINT:
                            self.add("hparams_session/status", _STATUS.get(status.value, "unknown"))

    def _add_session(self, session: memoryview) -> None:
        for entry in of_number(session, 1):
            name = as_text(b"".join(of_number(entry, 1)))
            for value in of_number(entry, 2):
                self.add(f"hparams/{name}", plain_text(value))
        self._add_named(session, {2: "model_uri", 3: "monitor_url", 4: "group"})

    def _add_named(self, message: memoryview, names: Mapping[int, str]) -> None:
        for field in fields(message):
            if field.number in names and field.kind == BYTES and field.content:
                self.add(f"hparams_session/{names[field.number]}", field.text)

    def take(self) -> dict[str, str]:
        """The entries since the last call."""
        new, self._new = self._new, {}
        return new

    def state(self) -> dict[str, int]:
        """How much has been kept, as plain data."""
        return {"characters": self._characters, "entries": self._entries}


def _text_pieces(value: bytes | memoryview) -> Iterator[str]:
    """The strings of a text summary, a line each, in pieces of bounded size."""
    between = ""
    for tensor in of_number(value, _VALUE_TENSOR):
        for string in of_number(tensor, _TENSOR_STRINGS):
            yield between
            between = "\n"
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            for begin in range(0, len(string), _DECODED_AT_A_TIME):
                yield decoder.decode(bytes(string[begin : begin + _DECODED_AT_A_TIME]))
            yield decoder.decode(b"", final=True)


def plugin_name(value: bytes | memoryview) -> str:
    """The plugin that a Value message names, "" if none.

    Raises :class:`~replay_parsers.tensorboard.messages.MalformedMessageError`.
    """
    for metadata in of_number(value, _VALUE_METADATA):
        for plugin in of_number(metadata, _PLUGIN_DATA):
            for name in of_number(plugin, _PLUGIN_NAME):
                return as_text(name)
    return ""


def _plugin_contents(value: bytes | memoryview) -> list[memoryview]:
    return [
        content
        for metadata in of_number(value, _VALUE_METADATA)
        for plugin in of_number(metadata, _PLUGIN_DATA)
        for content in of_number(plugin, _PLUGIN_CONTENT)
    ]


def plain_text(value: bytes | memoryview) -> str:
    """A google.protobuf.Value as text: a string as it is, anything else as JSON.

    Raises :class:`~replay_parsers.tensorboard.messages.MalformedMessageError`.
    """
    plain = _plain(value, _DEEPEST)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, sort_keys=True)


def _plain(value: bytes | memoryview, depth: int) -> Any:
    if depth == 0:
        return "…"
    plain: Any = None
    for field in fields(value):
        plain = _plain_field(field, depth)
    return plain


def _plain_field(field: Field, depth: int) -> Any:
    if field.number == 2 and field.kind == FIXED64:
        number = field.double
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if field.number == 4 and field.kind == VARINT:
        return field.value != 0
    if field.kind != BYTES:
        return None
    if field.number == 3:
        return field.text
    if field.number == 5:
        return {
            as_text(b"".join(of_number(entry, 1))): _plain(b"".join(of_number(entry, 2)), depth - 1)
            for entry in of_number(field.content, 1)
        }
    if field.number == 6:
        return [_plain(item, depth - 1) for item in of_number(field.content, 1)]
    return None
