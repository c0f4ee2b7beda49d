"""Printed numbers to doubles, correctly rounded, in compiled code.

A double is the nearest to the decimal number that was printed, as Python's own reading has it, bit by bit.  Integers
of up to 19 digits are scaled by powers of ten of 128 bits (Lemire, "Number Parsing at a Gigabyte per Second",
Software: Practice and Experience 51, 2021, section 5).  What has more digits, or a size that no log shows, is left to
the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.extending import intrinsic
from numpy.typing import NDArray

from replay_parsers.tensorboard.compilation import compiled, inlined
from replay_parsers.tensorboard.memory import bits_to_f64, load_u8

MOST_DIGITS = 19
"""As many fit into 64 bits, unsigned; leading zeros do not count."""

LARGEST_EXPONENT = 80
"""Of ten, either way, beside an integer of so many digits: far from the smallest and the largest double."""

_LONGEST = 64
_EXACT_FROM, _EXACT_TO = -27, 55
_TIES_FROM, _TIES_TO = -4, 23
_INT64 = ir.IntType(64)


def _power_of_ten(exponent: int) -> int:
    """The first 128 bits of a power of ten (its powers of two left out): cut off, or rounded up where it divides."""
    five: int = 5 ** abs(exponent)
    if exponent >= 0:
        return five << 128 >> five.bit_length()
    bits = (five - 1).bit_length()
    return (1 << (bits + 127)) // five + 1


def _powers() -> NDArray[np.int64]:
    powers = [_power_of_ten(exponent) for exponent in range(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1)]
    halves = [half for power in powers for half in (power >> 64, power & (2**64 - 1))]
    return np.array(halves, np.uint64).view(np.int64)


POWERS = _powers()
"""High and low halves of the powers from -LARGEST_EXPONENT on."""


@intrinsic
def _multiply_high(_typing: Any, _left: Any, _right: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        left, right = (builder.zext(argument, wide) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(left, right), ir.Constant(wide, 64)), _INT64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _leading_zeros(_typing: Any, _number: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def _below(_typing: Any, _left: Any, _right: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.icmp_unsigned("<", *arguments)

    return types.boolean(types.int64, types.int64), generate


multiply_high = cast(Callable[[int, int], int], _multiply_high)
"""The upper half of the product of two unsigned numbers."""
leading_zeros = cast(Callable[[int], int], _leading_zeros)
"""How many zero bits stand before the first one."""
below = cast(Callable[[int, int], bool], _below)
"""Whether one unsigned number is below another."""


@inlined
def _shifted_right(number: int, bits: int) -> int:
    """An unsigned number shifted by 1 to 63 bits."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)


@compiled
def nearest_double(digits: int, exponent: int) -> float:
    """The double nearest to ``digits`` times ten to the ``exponent``, NaN where this way cannot tell.

    ``digits``, unsigned, is not 0 and has at most 19 digits, ``exponent`` lies within ``LARGEST_EXPONENT`` of 0.
    """
    zeros = leading_zeros(digits)
    digits <<= zeros
    row = 2 * (exponent + LARGEST_EXPONENT)
    high = multiply_high(digits, POWERS[row])
    low = digits * POWERS[row]
    if high & 0x1FF == 0x1FF:
        # What the lower half of the power adds may carry into the bits that count.
        more = multiply_high(digits, POWERS[row + 1])
        low += more
        if below(low, more):
            high += 1
    if low == -1 and not _EXACT_FROM <= exponent <= _EXACT_TO:
        return np.nan
    top = _shifted_right(high, 63)
    mantissa = _shifted_right(high, top + 9)
    tie = 0 <= low <= 1 and mantissa & 3 == 1 and mantissa << (top + 9) == high
    if tie and _TIES_FROM <= exponent <= _TIES_TO:
        mantissa -= 1
    mantissa = (mantissa + (mantissa & 1)) >> 1
    # The binary exponent: 217706 / 65536 is the logarithm of ten, close enough for every exponent there is.
    power = (217706 * exponent >> 16) + 63 + top - zeros + 1023
    if mantissa == 1 << 53:
        mantissa = 1 << 52
        power += 1
    return bits_to_f64(power << 52 | (mantissa & ((1 << 52) - 1)))


@inlined
def _is_word(position: int, rest: int, length: int) -> bool:
    """Whether the word at ``position`` goes on, after its first letter, with the letters packed in ``rest``."""
    for index in range(1, length):
        if load_u8(position + index) != rest & 0xFF:
            return False
        rest >>= 8
    return True


_RUE = int.from_bytes(b"rue", "little")
_ALSE = int.from_bytes(b"alse", "little")


@inlined
def read_value(position: int) -> tuple[float, int]:
    """The number, true (1) or false (0) at ``position`` and the position after it; 0 for it where there is none.

    Nor is there one where it is not as plain as most are.  Any byte that belongs to no number must follow.
    """
    begin = position
    byte = load_u8(position)
    negative = byte == ord("-")
    if negative:
        position += 1
        byte = load_u8(position)
    first = position
    digits = 0
    while ord("0") <= byte <= ord("9"):
        digits = digits * 10 + byte - ord("0")
        position += 1
        byte = load_u8(position)
    count = position - first
    if count == 0:
        if byte == ord("t") and not negative and _is_word(position, _RUE, 4):
            return 1.0, position + 4
        if byte == ord("f") and not negative and _is_word(position, _ALSE, 5):
            return 0.0, position + 5
        return 0.0, 0
    # JSON has no numbers with leading zeros.
    if count > 1 and load_u8(first) == ord("0"):
        return 0.0, 0
    exponent = 0
    whole = True
    if byte == ord("."):
        whole = False
        position += 1
        fraction = position
        byte = load_u8(position)
        while ord("0") <= byte <= ord("9"):
            digits = digits * 10 + byte - ord("0")
            position += 1
            byte = load_u8(position)
        if position == fraction:
            return 0.0, 0
        exponent = fraction - position
        count -= exponent
    if position - begin > _LONGEST or (count > MOST_DIGITS and count - _zeros_before(first) > MOST_DIGITS):
        return 0.0, 0
    if byte == ord("e") or byte == ord("E"):
        whole = False
        written, position = _read_exponent(position + 1)
        exponent += written
    if position == 0 or not -LARGEST_EXPONENT <= exponent <= LARGEST_EXPONENT:
        return 0.0, 0
    value = 0.0
    if digits != 0:
        value = nearest_double(digits, exponent)
        if value != value:
            return 0.0, 0
    # An integer has no negative zero.
    if negative and not (whole and digits == 0):
        value = -value
    return value, position


@compiled
def _zeros_before(position: int) -> int:
    """How many zeros a number begins with."""
    zeros = 0
    byte = load_u8(position)
    while byte == ord("0") or byte == ord("."):
        zeros += byte == ord("0")
        position += 1
        byte = load_u8(position)
    return zeros


@compiled
def _read_exponent(position: int) -> tuple[int, int]:
    """The exponent that is written at ``position``, and the position after it: 0 where it is none, or too long."""
    byte = load_u8(position)
    negative = byte == ord("-")
    if negative or byte == ord("+"):
        position += 1
        byte = load_u8(position)
    first = position
    exponent = 0
    while ord("0") <= byte <= ord("9") and position - first <= 4:
        exponent = exponent * 10 + byte - ord("0")
        position += 1
        byte = load_u8(position)
    if not 1 <= position - first <= 4:
        return 0, 0
    return -exponent if negative else exponent, position
