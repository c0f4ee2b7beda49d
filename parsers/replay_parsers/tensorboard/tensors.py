"""Scalars encoded as tensors, in every numeric type and both encodings of TensorProto (tensor.proto, types.proto).

A tensor is a scalar when its shape is rank 0 or all ones.  Its one number stands in ``tensor_content`` as raw
little-endian bytes, or in the field of its type (``float_val``, ``int_val`` ...), packed or not.  TensorFlow
leaves a zero out of either, so that none at all means 0.
"""

from __future__ import annotations

from replay_parsers.tensorboard.compilation import compiled
from replay_parsers.tensorboard.memory import bits_to_f32, bits_to_f64, load_i64, load_u8, load_u16, load_u32
from replay_parsers.tensorboard.wire import extent, skip, varint

IS_SCALAR, NOT_SCALAR, MALFORMED_TENSOR, OTHER_TYPE = range(4)

# DataType of types.proto.
(FLOAT, DOUBLE, INT32, UINT8, INT16, INT8, _STRING, _COMPLEX64, INT64, BOOL) = range(1, 11)
QINT8, QUINT8, QINT32, BFLOAT16, QINT16, QUINT16, UINT16 = range(11, 18)
HALF = 19
UINT32, UINT64 = 22, 23
FLOAT8_E5M2, FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E4M3B11FNUZ, FLOAT8_E5M2FNUZ = range(24, 29)
INT4, UINT4, INT2, UINT2, FLOAT4_E2M1FN = range(29, 34)


@compiled
def value_field(dtype: int) -> int:
    """The number of the TensorProto field that holds values of ``dtype``; 0 when they are no real numbers."""
    if dtype == FLOAT:
        return 5
    if dtype == DOUBLE:
        return 6
    if dtype == INT64:
        return 10
    if dtype == BOOL:
        return 11
    if dtype in (HALF, BFLOAT16):
        return 13
    if dtype == UINT32:
        return 16
    if dtype == UINT64:
        return 17
    if FLOAT8_E5M2 <= dtype <= FLOAT8_E5M2FNUZ or dtype == FLOAT4_E2M1FN:
        return 18
    if INT32 <= dtype <= INT8 or QINT8 <= dtype <= UINT16 or INT4 <= dtype <= UINT2:
        return 7
    return 0


@compiled
def width(dtype: int) -> int:
    """Bytes of one value of a numeric ``dtype`` in ``tensor_content``."""
    if dtype in (DOUBLE, INT64, UINT64):
        return 8
    if dtype in (FLOAT, INT32, QINT32, UINT32):
        return 4
    if dtype in (INT16, HALF) or BFLOAT16 <= dtype <= UINT16:
        return 2
    return 1


@compiled
def raw_bits(position: int, size: int) -> int:
    """The ``size`` (1, 2, 4 or 8) little-endian bytes at ``position``."""
    if size == 8:
        return load_i64(position)
    if size == 4:
        return load_u32(position)
    return load_u16(position) if size == 2 else load_u8(position)


@compiled
def sign_extended(bits: int, size: int) -> int:
    """The low ``size`` bits as a two's-complement number."""
    return bits << 64 - size >> 64 - size


@compiled
def small_float(bits: int, exponent_bits: int, fraction_bits: int, bias: int) -> float:
    """A finite float of few bits: a sign, an exponent, a fraction."""
    fraction = bits & (1 << fraction_bits) - 1
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    if exponent == 0:
        exponent = 1
    else:
        fraction |= 1 << fraction_bits
    power = bits_to_f64(exponent - bias - fraction_bits + 1023 << 52)
    magnitude = fraction * power
    return -magnitude if bits >> exponent_bits + fraction_bits & 1 else magnitude


@compiled
def ieee_small_float(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    """As :func:`small_float`, with the highest exponent kept for infinities and NaN, as IEEE 754 does."""
    highest = (1 << exponent_bits) - 1
    if bits >> fraction_bits & highest != highest:
        return small_float(bits, exponent_bits, fraction_bits, highest >> 1)
    if bits & (1 << fraction_bits) - 1:
        return float("nan")
    return float("-inf") if bits >> exponent_bits + fraction_bits & 1 else float("inf")


@compiled
def float8(dtype: int, bits: int) -> float:
    """An eight-bit float (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"; UZ: no negative zero)."""
    if dtype == FLOAT8_E5M2:
        return ieee_small_float(bits, 5, 2)
    if dtype == FLOAT8_E4M3FN:
        return float("nan") if bits & 0x7F == 0x7F else small_float(bits, 4, 3, 7)
    if bits == 0x80:
        return float("nan")
    if dtype == FLOAT8_E4M3FNUZ:
        return small_float(bits, 4, 3, 8)
    if dtype == FLOAT8_E4M3B11FNUZ:
        return small_float(bits, 4, 3, 11)
    return small_float(bits, 5, 2, 16)


@compiled
def from_bits(dtype: int, bits: int) -> float:
    """The number that ``bits`` stand for."""
    if dtype == FLOAT:
        return bits_to_f32(bits)
    if dtype == DOUBLE:
        return bits_to_f64(bits)
    if dtype == BFLOAT16:
        return bits_to_f32(bits << 16)
    if dtype == HALF:
        return ieee_small_float(bits, 5, 10)
    if dtype == BOOL:
        return 1.0 if bits != 0 else 0.0
    if dtype == UINT64:
        if bits >= 0:
            return float(bits)
        # The last bit is kept in the halved number, so that it is rounded once and rightly.
        return 2.0 * float(bits >> 1 & 0x7FFFFFFFFFFFFFFF | bits & 1)
    if FLOAT8_E5M2 <= dtype <= FLOAT8_E5M2FNUZ:
        return float8(dtype, bits & 0xFF)
    if dtype == FLOAT4_E2M1FN:
        return small_float(bits & 0xF, 2, 1, 1)
    return float(integer_from_bits(dtype, bits))


@compiled
def integer_from_bits(dtype: int, bits: int) -> int:
    """The integer that ``bits`` stand for; in four and two bits, those are the low ones of a byte."""
    if dtype == INT64:
        return bits
    if dtype in (INT32, QINT32):
        return sign_extended(bits, 32)
    if dtype == UINT32:
        return bits & 0xFFFFFFFF
    if dtype in (INT16, QINT16):
        return sign_extended(bits, 16)
    if dtype in (UINT16, QUINT16):
        return bits & 0xFFFF
    if dtype in (INT8, QINT8):
        return sign_extended(bits, 8)
    if dtype in (UINT8, QUINT8):
        return bits & 0xFF
    if dtype == INT4:
        return sign_extended(bits, 4)
    if dtype == INT2:
        return sign_extended(bits, 2)
    return bits & (0xF if dtype == UINT4 else 0x3)


@compiled
def one_element(position: int, end: int) -> int:
    """Whether a TensorShapeProto has rank 0, or is of unknown rank, or has only dimensions of 1."""
    while position < end:
        key, position = varint(position, end)
        if position == 0:
            return MALFORMED_TENSOR
        if key != 0x12:  # dim
            position = skip(key, position, end)
            if position == 0:
                return MALFORMED_TENSOR
            continue
        dimension, stop = extent(position, end)
        if dimension == 0:
            return MALFORMED_TENSOR
        size = 0
        while dimension < stop:
            key, dimension = varint(dimension, stop)
            if dimension == 0:
                return MALFORMED_TENSOR
            if key == 0x08:  # size
                size, dimension = varint(dimension, stop)
            else:
                dimension = skip(key, dimension, stop)
            if dimension == 0:
                return MALFORMED_TENSOR
        if size != 1:
            return NOT_SCALAR
        position = stop
    return IS_SCALAR


@compiled
def data_type(position: int, end: int) -> tuple[int, int]:
    """The ``dtype`` of a TensorProto, and whether its fields are well formed (1) or not (0)."""
    dtype = 0
    while position < end:
        key, position = varint(position, end)
        if position == 0:
            return 0, 0
        if key == 0x08:
            dtype, position = varint(position, end)
        else:
            position = skip(key, position, end)
        if position == 0:
            return 0, 0
    return dtype, 1


@compiled
def listed_values(dtype: int, key: int, position: int, end: int) -> tuple[int, int, int]:
    """One occurrence of the value field of ``dtype``: how many values it holds, the first one's bits, where it ends.

    Packed and unpacked forms both occur, whatever the schema says.
    """
    kind = key & 7
    stop = end
    if kind == 2:
        position, stop = extent(position, end)
        if position == 0:
            return 0, 0, 0
        if value_field(dtype) == 18:
            return stop - position, load_u8(position) if stop > position else 0, stop
        if stop == position:
            return 0, 0, stop
    if value_field(dtype) == 5 or value_field(dtype) == 6:
        size = width(dtype)
        count = (stop - position) // size if kind == 2 else 1
        if count * size > stop - position or (kind == 2 and count * size != stop - position):
            return 0, 0, 0
        return count, raw_bits(position, size), stop if kind == 2 else position + size
    first, position = varint(position, stop)
    count = 1
    while kind == 2 and position != 0 and position < stop:
        _, position = varint(position, stop)
        count += 1
    return count, first, position


@compiled
def wire_type_fits(dtype: int, kind: int) -> bool:
    """Whether a value field of ``dtype`` may have wire type ``kind``."""
    if kind == 2:
        return True
    field = value_field(dtype)
    if field == 5:
        return kind == 5
    if field == 6:
        return kind == 1
    return kind == 0 and field != 18


@compiled
def tensor_scalar(begin: int, end: int) -> tuple[int, float]:
    """The one number of a TensorProto: (``IS_SCALAR``, number), or (``NOT_SCALAR`` or ``MALFORMED_TENSOR``, 0)."""
    what = OTHER_TYPE
    number = 0.0
    # Nearly always the type is the first field and one byte long.
    if end - begin >= 2 and load_u8(begin) == 0x08 and load_u8(begin + 1) < 0x80:
        what, number = scalar_of_type(load_u8(begin + 1), begin + 2, end)
    if what == OTHER_TYPE:
        dtype, well_formed = data_type(begin, end)
        if not well_formed:
            return MALFORMED_TENSOR, 0.0
        what, number = scalar_of_type(dtype, begin, end)
        # A type that is stated twice, and differently, is no type.
        if what == OTHER_TYPE:
            return NOT_SCALAR, 0.0
    return what, number


@compiled
def scalar_of_type(dtype: int, begin: int, end: int) -> tuple[int, float]:
    """As :func:`tensor_scalar`, of fields from ``begin`` on; (``OTHER_TYPE``, 0) if one of them states another type."""
    # A reference to a variable of a type is written as the type plus 100.
    plain = dtype - 100 if dtype > 100 else dtype
    field = value_field(plain)
    content, content_end = 0, 0
    count = 0
    bits = 0
    position = begin
    one = True
    while position < end:
        key, position = varint(position, end)
        if key == 0x12:  # tensor_shape
            shape, position = extent(position, end)
            if position > shape:
                what = one_element(shape, position)
                if what == MALFORMED_TENSOR:
                    return what, 0.0
                one = what == IS_SCALAR
        elif key == 0x22:  # tensor_content
            content, content_end = extent(position, end)
            position = content_end
        elif key == 0x08:
            stated, position = varint(position, end)
            if stated != dtype:
                return OTHER_TYPE, 0.0
        elif position != 0 and field != 0 and key >> 3 == field and wire_type_fits(plain, key & 7):
            more, first, position = listed_values(plain, key, position, end)
            if count == 0:
                bits = first
            count += more
        elif position != 0:
            position = skip(key, position, end)
        if position == 0:
            return MALFORMED_TENSOR, 0.0
    if field == 0 or not one:
        return NOT_SCALAR, 0.0
    if content_end > content:
        if content_end - content != width(plain):
            return NOT_SCALAR, 0.0
        bits = raw_bits(content, width(plain))
    elif count > 1:
        return NOT_SCALAR, 0.0
    return IS_SCALAR, from_bits(plain, bits)
