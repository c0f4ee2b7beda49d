"""Where things lie in memory that Python and the compiled decoder share, and the codes they exchange.

A job is a block of int64 fields; a tag entry is another.  Each name below is the byte offset of a field, so that
compiled code writes ``load_i64(job + ROWS)`` and Python ``job[ROWS]``.
"""

from __future__ import annotations

# Fields of a job.
(
    CURSOR,  # address of the record to decode next
    FILLED,  # address just past the last byte of input
    ROWS,  # rows written
    ROW_CAPACITY,  # rows for which the columns have room
    ROW_LIMIT,  # rows at which a piece is full
    TAG_COLUMN,  # addresses of the columns
    SEGMENT_COLUMN,
    STEP_COLUMN,
    TIME_COLUMN,
    VALUE_COLUMN,
    SLOTS,  # address of the hash table: int64, 1 + number of a tag, 0 where empty
    SLOT_MASK,  # number of slots (a power of two) less 1
    TAGS,  # address of the tag entries
    TAG_COUNT,
    TAG_CAPACITY,
    TAGS_HASHED,  # how many of them are in the hash table
    NAMES,  # address of the bytes of all tags, each padded with zeros to a multiple of 8
    NAMES_USED,
    NAMES_CAPACITY,
    MOST_TAGS,  # beyond which, or beyond so many bytes of names, a new tag is refused
    MOST_NAME_BYTES,
    REFUSED_VALUES,  # values of such tags in this piece
    PIECE_TAGS,  # tags that have rows in this piece
    PREVIOUS,  # address of the entry of the tag before, 0 if none
    SEGMENT,  # the present segment
    WALL_TIME,  # of the present event: microseconds since 1970
    STEP,
    VALUE_INDEX,  # number of the value in the present event
    VALUES_DONE,  # values of the present event that are done with, when it is taken up again
    VALUE_AT,  # address of the first that is not, where the columns were full
    NOTE,  # what Python is asked to look at: a NOTE_ code
    NOTE_BEGIN,  # addresses of the bytes it is about
    NOTE_END,
    NOTE_TAG,  # number of the tag it is about
    GRAPHS,  # events counted by what they hold
    LOG_MESSAGES,
    RUN_METADATA,
    JOB_BYTES,
) = range(0, 38 * 8, 8)

# Fields of a tag entry; the first eight, one cache line, are all that a scalar needs.
(
    NAME,  # offset of the name's first byte in NAMES
    NAME_LENGTH,
    NAME_HASH,
    NEXT,  # address of the entry of the tag that followed last time, 0 if none
    LAST_STEP,
    LAST_SEGMENT,  # segment in which the tag was last seen, -1 if none
    FORM,  # what the tag's first metadata says it is: a FORM_ code
    PIECE_CODE,  # number of the tag among those of this piece, -1 if none
    NOTED,  # whether its text was handed to Python
    COUNTS,  # values that are no scalar, by FORM_ code: FORM_CODES fields
) = range(0, 10 * 8, 8)

# What a value is: by the plugin that its tag's metadata names, or by its own type.
(
    FORM_UNKNOWN,
    FORM_SCALAR,
    FORM_IMAGE,
    FORM_HISTOGRAM,
    FORM_AUDIO,
    FORM_TEXT,
    FORM_HPARAMS,
    FORM_PLUGIN,  # some other plugin, whose name Python keeps
    FORM_TENSOR,  # a tensor that is no scalar, of no plugin
    FORM_EMPTY,  # a value that holds nothing
    FORM_CODES,
) = range(11)

TAG_BYTES = COUNTS + 8 * FORM_CODES

FORM_NAMES = {
    FORM_IMAGE: "image",
    FORM_HISTOGRAM: "histogram",
    FORM_AUDIO: "audio",
    FORM_TEXT: "text",
    FORM_HPARAMS: "hparams",
    FORM_TENSOR: "tensor",
    FORM_EMPTY: "empty value",
}

# Why the decoder stopped.
(
    GOING_ON,  # it has not
    NEED_INPUT,  # the next record is not complete
    PIECE_FULL,
    COLUMNS_FULL,
    TAGS_FULL,
    NOTE_LEFT,  # NOTE says what Python is to look at
    BAD_HEADER,  # the length's checksum does not hold
    BAD_PAYLOAD,  # the payload's checksum does not hold
    MALFORMED,  # the checksums hold, but the payload is no Event message
) = range(9)

# What Python is asked to look at; the bytes are those of a Value message, of a name, or of an Event.
NOTE_PLUGIN, NOTE_TEXT, NOTE_HPARAMS, NOTE_SESSION, NOTE_REFUSED = range(1, 6)

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
"""A record is its payload's length (8 bytes), the length's checksum (4), the payload, the payload's checksum (4)."""

LONGEST_MESSAGE = (1 << 31) - 1
"""Bytes of the longest protocol-buffer message that there can be: a header that states more is damaged."""

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
"""The wire types of protocol buffers."""

PADDING = 64
"""Spare bytes that every input buffer has past its end."""
