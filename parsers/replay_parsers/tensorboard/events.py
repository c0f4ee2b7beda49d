"""Event and Summary messages (event.proto, summary.proto) to rows: the compiled heart of the decoder.

Everything here takes the address of a job (see :mod:`~replay_parsers.tensorboard.layout`) and positions in its
input.  A function that cannot go on returns why, having changed nothing for the value at hand, so that it can be
taken up again at that value.
"""

from __future__ import annotations

import numpy as np

from replay_parsers.records import NO_TIME
from replay_parsers.tensorboard.compilation import compiled, inlined
from replay_parsers.tensorboard.layout import (
    COLUMNS_FULL,
    COUNTS,
    FORM,
    FORM_AUDIO,
    FORM_EMPTY,
    FORM_HISTOGRAM,
    FORM_HPARAMS,
    FORM_IMAGE,
    FORM_PLUGIN,
    FORM_SCALAR,
    FORM_TENSOR,
    FORM_TEXT,
    FORM_UNKNOWN,
    GOING_ON,
    GRAPHS,
    LAST_SEGMENT,
    LAST_STEP,
    LOG_MESSAGES,
    MALFORMED,
    NOTE,
    NOTE_BEGIN,
    NOTE_END,
    NOTE_HPARAMS,
    NOTE_LEFT,
    NOTE_PLUGIN,
    NOTE_REFUSED,
    NOTE_SESSION,
    NOTE_TAG,
    NOTE_TEXT,
    NOTED,
    PIECE_CODE,
    PIECE_TAGS,
    REFUSED_VALUES,
    ROW_CAPACITY,
    ROWS,
    RUN_METADATA,
    SEGMENT,
    SEGMENT_COLUMN,
    STEP,
    STEP_COLUMN,
    TAG_BYTES,
    TAG_COLUMN,
    TAGS,
    TAGS_FULL,
    TIME_COLUMN,
    VALUE_AT,
    VALUE_COLUMN,
    VALUE_INDEX,
    VALUES_DONE,
    WALL_TIME,
)
from replay_parsers.tensorboard.memory import (
    load_f32,
    load_f64,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from replay_parsers.tensorboard.tags import NO_ROOM, REFUSED, equals, find
from replay_parsers.tensorboard.tensors import IS_SCALAR, MALFORMED_TENSOR, tensor_scalar
from replay_parsers.tensorboard.wire import extent, skip, varint

_NO_TIME = int(NO_TIME)


def _word(name: bytes) -> int:
    return int.from_bytes(name, "little")


_SCALARS, _TEXT, _HPARAMS = _word(b"scalars"), _word(b"text"), _word(b"hparams")
_IMAGES, _AUDIO = _word(b"images"), _word(b"audio")
_HISTOGRAMS_BEGIN, _HISTOGRAMS_END = _word(b"histo"), _word(b"grams")
_DATA_CLASS_SCALAR = 1

SHOWN_NAME_BYTES = 100
"""Bytes of its name that the message about a refused tag shows."""


@inlined
def microseconds(seconds: float) -> int:
    """Seconds since 1970 to the nearest microsecond; NO_TIME when they are no number or beyond int64."""
    scaled = np.rint(seconds * 1e6)
    if -9.2e18 < scaled < 9.2e18:
        return int(scaled)
    return _NO_TIME


@compiled
def form_of_plugin(position: int, length: int) -> int:
    """The FORM_ code of a plugin's name."""
    if length == 0:
        return FORM_UNKNOWN
    if equals(position, length, _SCALARS, 7):
        return FORM_SCALAR
    if equals(position, length, _TEXT, 4):
        return FORM_TEXT
    if equals(position, length, _HPARAMS, 7):
        return FORM_HPARAMS
    if equals(position, length, _IMAGES, 6):
        return FORM_IMAGE
    if equals(position, length, _AUDIO, 5):
        return FORM_AUDIO
    if length == 10 and equals(position, 5, _HISTOGRAMS_BEGIN, 5) and equals(position + 5, 5, _HISTOGRAMS_END, 5):
        return FORM_HISTOGRAM
    return FORM_PLUGIN


@compiled
def form_of_plugin_data(position: int, end: int) -> int:
    """The FORM_ code of a SummaryMetadata.PluginData; -1 if malformed."""
    name, stop = position, position
    while position < end:
        key, position = varint(position, end)
        if position != 0 and key == 0x0A:  # plugin_name
            name, stop = extent(position, end)
            position = stop
        elif position != 0:
            position = skip(key, position, end)
        if position == 0:
            return -1
    return form_of_plugin(name, stop - name)


@compiled
def form_of_metadata(position: int, end: int) -> int:
    """The FORM_ code of a SummaryMetadata, whose ``data_class`` outweighs the plugin's name; -1 if malformed."""
    form = FORM_UNKNOWN
    data_class = 0
    while position < end:
        key, position = varint(position, end)
        if position == 0:
            return -1
        if key == 0x0A:  # plugin_data
            plugin, position = extent(position, end)
            if plugin != 0:
                form = form_of_plugin_data(plugin, position)
        elif key == 0x20:
            data_class, position = varint(position, end)
        else:
            position = skip(key, position, end)
        if position == 0 or form < 0:
            return -1
    return FORM_SCALAR if data_class == _DATA_CLASS_SCALAR else form


@inlined
def add_row(job: int, entry: int, value: float) -> None:
    """Write one scalar of the tag ``entry`` into the columns, which have room."""
    step = load_i64(job + STEP)
    segment = load_i64(job + SEGMENT)
    if load_i64(entry + LAST_SEGMENT) != segment:
        store_i64(entry + LAST_SEGMENT, segment)
    elif step < load_i64(entry + LAST_STEP):
        segment += 1
        store_i64(job + SEGMENT, segment)
        store_i64(entry + LAST_SEGMENT, segment)
    store_i64(entry + LAST_STEP, step)
    code = load_i64(entry + PIECE_CODE)
    if code < 0:
        code = load_i64(job + PIECE_TAGS)
        store_i64(job + PIECE_TAGS, code + 1)
        store_i64(entry + PIECE_CODE, code)
    row = load_i64(job + ROWS)
    store_i32(load_i64(job + TAG_COLUMN) + 4 * row, code)
    store_i32(load_i64(job + SEGMENT_COLUMN) + 4 * row, segment)
    store_i64(load_i64(job + STEP_COLUMN) + 8 * row, step)
    store_i64(load_i64(job + TIME_COLUMN) + 8 * row, load_i64(job + WALL_TIME))
    store_f64(load_i64(job + VALUE_COLUMN) + 8 * row, value)
    store_i64(job + ROWS, row + 1)


@compiled
def leave_note(job: int, note: int, begin: int, end: int) -> int:
    """Ask Python to look at the bytes from ``begin`` to ``end``; the present value counts as done."""
    store_i64(job + NOTE, note)
    store_i64(job + NOTE_BEGIN, begin)
    store_i64(job + NOTE_END, end)
    store_i64(job + VALUES_DONE, load_i64(job + VALUE_INDEX) + 1)
    return NOTE_LEFT


@compiled
def refuse(job: int, tag: int, tag_end: int) -> int:
    """Count a value of one tag too many, and have Python note where the first of them stands."""
    count = load_i64(job + REFUSED_VALUES)
    store_i64(job + REFUSED_VALUES, count + 1)
    if count > 0:
        return GOING_ON
    return leave_note(job, NOTE_REFUSED, tag, min(tag_end, tag + SHOWN_NAME_BYTES))


@compiled
def count_other(job: int, entry: int, own_form: int, begin: int, end: int) -> int:
    """Count a value that is no scalar, and have Python read it where it tells something of the run."""
    form = own_form
    if own_form in (FORM_TENSOR, FORM_EMPTY):
        of_tag = load_i64(entry + FORM)
        if of_tag != FORM_UNKNOWN and of_tag != FORM_SCALAR:
            form = of_tag
    count = entry + COUNTS + 8 * form
    store_i64(count, load_i64(count) + 1)
    store_i64(job + NOTE_TAG, (entry - load_i64(job + TAGS)) // TAG_BYTES)
    if form == FORM_HPARAMS:
        return leave_note(job, NOTE_HPARAMS, begin, end)
    if (form in (FORM_TEXT, FORM_PLUGIN)) and load_i64(entry + NOTED) == 0:
        store_i64(entry + NOTED, 1)
        return leave_note(job, NOTE_TEXT if form == FORM_TEXT else NOTE_PLUGIN, begin, end)
    return GOING_ON


@inlined
def read_value(job: int, begin: int, end: int) -> int:
    """One Summary.Value, for which the columns have room."""
    tag, tag_end = begin, begin
    node, node_end = begin, begin
    metadata, metadata_end = 0, 0
    tensor, tensor_end = 0, 0
    own_form = FORM_EMPTY
    number = 0.0
    position = begin
    while position < end:
        key, position = varint(position, end)
        if position == 0:
            return MALFORMED
        if key == 0x0A:
            tag, tag_end = extent(position, end)
            position = tag_end
        elif key == 0x15:  # simple_value
            if end - position < 4:
                return MALFORMED
            number = load_f32(position)
            own_form = FORM_SCALAR
            position += 4
        elif key == 0x42:
            tensor, tensor_end = extent(position, end)
            own_form = FORM_TENSOR
            position = tensor_end
        elif key == 0x4A:
            metadata, metadata_end = extent(position, end)
            position = metadata_end
        elif key == 0x3A:  # node_name
            node, node_end = extent(position, end)
            position = node_end
        else:
            position = skip(key, position, end)
            if key == 0x1A or key == 0x2A:  # obsolete_old_style_histogram, histo
                own_form = FORM_HISTOGRAM
            elif key == 0x22:
                own_form = FORM_IMAGE
            elif key == 0x32:
                own_form = FORM_AUDIO
        if position == 0:
            return MALFORMED
    if tag == tag_end and own_form == FORM_TENSOR:
        tag, tag_end = node, node_end
    entry = find(job, tag, tag_end - tag)
    if entry == REFUSED:
        return refuse(job, tag, tag_end)
    if entry == NO_ROOM:
        return TAGS_FULL
    if metadata != 0 and load_i64(entry + FORM) == FORM_UNKNOWN:
        form = form_of_metadata(metadata, metadata_end)
        if form < 0:
            return MALFORMED
        store_i64(entry + FORM, form)
    if own_form == FORM_TENSOR and load_i64(entry + FORM) <= FORM_SCALAR:
        what, number = tensor_scalar(tensor, tensor_end)
        if what == MALFORMED_TENSOR:
            return MALFORMED
        if what == IS_SCALAR:
            own_form = FORM_SCALAR
    if own_form == FORM_SCALAR:
        add_row(job, entry, number)
        return GOING_ON
    return count_other(job, entry, own_form, begin, end)


@inlined
def read_summary(job: int, begin: int, end: int) -> int:
    """One Summary: its values from the first that is not done with."""
    position = begin
    while position < end:
        field = position
        key, position = varint(position, end)
        if position == 0:
            return MALFORMED
        if key != 0x0A:
            position = skip(key, position, end)
            if position == 0:
                return MALFORMED
            continue
        value, position = extent(position, end)
        if value == 0:
            return MALFORMED
        index = load_i64(job + VALUE_INDEX)
        if index >= load_i64(job + VALUES_DONE):
            if load_i64(job + ROWS) >= load_i64(job + ROW_CAPACITY):
                status = COLUMNS_FULL
                store_i64(job + VALUE_AT, field)
            else:
                status = read_value(job, value, position)
            if status != GOING_ON:
                if status != NOTE_LEFT:
                    store_i64(job + VALUES_DONE, index)
                return status
        store_i64(job + VALUE_INDEX, index + 1)
    return GOING_ON


@inlined
def read_summaries(job: int, position: int, end: int) -> int:
    """The summaries of an Event from ``position`` on; protobuf joins several occurrences into one."""
    while position < end:
        key, position = varint(position, end)
        if key == 0x2A:
            summary, position = extent(position, end)
            status = read_summary(job, summary, position)
            if status != GOING_ON:
                return status
        else:
            position = skip(key, position, end)
    return GOING_ON


@inlined
def read_event(job: int, begin: int, end: int) -> int:
    """One Event: its time and step first, since they may stand after the values; then what it holds."""
    wall_time = 0.0
    step = 0
    holds = 0
    held = 0
    position = begin
    while position < end:
        field = position
        key, position = varint(position, end)
        if position == 0:
            return MALFORMED
        if key == 0x09:
            if end - position < 8:
                return MALFORMED
            wall_time = load_f64(position)
            position += 8
        elif key == 0x10:
            step, position = varint(position, end)
        elif key == 0x2A:
            if holds != key:
                holds, held = key, field
            _, position = extent(position, end)
        else:
            position = skip(key, position, end)
            if key == 0x1A or key == 0x22 or key == 0x32 or key == 0x3A or key == 0x42 or key == 0x4A or key == 0x52:
                holds = key
        if position == 0:
            return MALFORMED
    store_i64(job + WALL_TIME, microseconds(wall_time))
    store_i64(job + STEP, step)
    store_i64(job + VALUE_INDEX, 0)
    status = read_summaries(job, held, end) if holds == 0x2A else note_event(job, holds, begin, end)
    if status == GOING_ON:
        store_i64(job + VALUES_DONE, 0)
    return status


@compiled
def note_event(job: int, holds: int, begin: int, end: int) -> int:
    """Count an event without a summary; a session's log is for Python to read."""
    if load_i64(job + VALUES_DONE) > 0:
        return GOING_ON
    counter = 0
    if holds == 0x22 or holds == 0x4A:  # graph_def, meta_graph_def
        counter = GRAPHS
    elif holds == 0x32:
        counter = LOG_MESSAGES
    elif holds == 0x42:  # tagged_run_metadata
        counter = RUN_METADATA
    elif holds == 0x3A:
        return leave_note(job, NOTE_SESSION, begin, end)
    if counter != 0:
        store_i64(job + counter, load_i64(job + counter) + 1)
    return GOING_ON
