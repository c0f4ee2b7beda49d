"""TensorBoard event files: what torch, TensorFlow, tensorboardX, JAX and most trainers write.

The decoder is compiled (see :mod:`~replay_parsers.tensorboard.compilation`), so it is imported only when an
event file is read: telling a file's format, or reading a text log, does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay_parsers.parser import Parser, Request
from replay_parsers.records import Records
from replay_parsers.tensorboard.recognition import recognise

__all__ = ["PARSER", "read", "recognise"]


def read(request: Request) -> Iterator[Records]:
    """Read an event file piece by piece (see :func:`replay_parsers.tensorboard.reader.read`)."""
    from replay_parsers.tensorboard.reader import read as read_event_file

    return read_event_file(request)


PARSER = Parser(name="tensorboard", recognise=recognise, read=read, appends=True)
