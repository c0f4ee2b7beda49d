"""TensorBoard event files: what torch, TensorFlow, tensorboardX, JAX and most trainers write.

The decoder is compiled (see :mod:`~replay_parsers.tensorboard.compilation`), so it is imported only when an
event file is read: telling a file's format, or reading a text log, does not pay for it.

Memory is bounded, and what goes beyond is told, never passed over in silence:

- a record over 128 MiB (:data:`~replay_parsers.tensorboard.reader.LONGEST_RECORD`; a graph, mostly) is verified, told
  as not understood, and not decoded; a header that states 2 GiB or more, which no protocol-buffer message has, is
  damage, although its checksum holds;
- of one file 100,000 different tags are read (:data:`~replay_parsers.tensorboard.buffers.MOST_TAGS`), of 16 MiB
  together; values under any further tag are counted and told as not understood;
- an event of more values than a piece holds is given out in several, so that a piece can end within an event.
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
