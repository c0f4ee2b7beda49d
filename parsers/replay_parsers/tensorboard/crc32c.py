"""CRC-32C (Castagnoli), the checksum of every header and payload in an event file.

x86-64 processors since 2008 have an instruction for it (SSE4.2).  Elsewhere eight tables take eight bytes a turn
("slicing-by-8": Kounavis and Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC Generation",
IEEE Transactions on Computers 57, 2008).  The choice is made at run time, by what numba compiles for; numba keys
its cache by the same, so code for one processor is never run on another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic
from numpy.typing import NDArray

from replay_parsers.tensorboard.compilation import SETTINGS, compiled, inlined
from replay_parsers.tensorboard.memory import load_i64, load_u8

POLYNOMIAL = 0x82F63B78
"""The Castagnoli polynomial, bits reversed."""

_ALL_ONES = 0xFFFFFFFF


def has_instruction() -> bool:
    """Whether numba compiles for a processor with the SSE4.2 checksum instruction."""
    if not llvmlite.binding.get_process_triple().startswith(("x86_64", "amd64")):
        return False
    if SETTINGS.CPU_FEATURES is not None:
        return "+sse4.2" in SETTINGS.CPU_FEATURES.split(",")
    if SETTINGS.CPU_NAME is not None:
        return False
    return bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))


def _tables() -> NDArray[np.int64]:
    """Eight tables of 256 remainders: table k is for a byte that k more bytes follow."""
    tables = np.zeros((8, 256), dtype=np.int64)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (POLYNOMIAL if remainder & 1 else 0)
        tables[0, byte] = remainder
    for k in range(1, 8):
        tables[k] = tables[0, tables[k - 1] & 0xFF] ^ tables[k - 1] >> 8
    return tables


TABLES = _tables().reshape(-1)


def _generate_8_bytes(_typing: Any, _checksum: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", fnty=kind)
        return builder.call(function, arguments)

    return types.int64(types.int64, types.int64), generate


def _generate_1_byte(_typing: Any, _checksum: Any, _byte: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), ir.IntType(8)])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.32.8", fnty=kind)
        checksum = builder.trunc(arguments[0], ir.IntType(32))
        return builder.zext(
            builder.call(function, [checksum, builder.trunc(arguments[1], ir.IntType(8))]), ir.IntType(64)
        )

    return types.int64(types.int64, types.int64), generate


_instruction_8_bytes = cast(Callable[[int, int], int], intrinsic(_generate_8_bytes))
_instruction_1_byte = cast(Callable[[int, int], int], intrinsic(_generate_1_byte))


@inlined
def extend_by_instruction(checksum: int, begin: int, length: int) -> int:
    """Extend ``checksum`` over ``length`` bytes at address ``begin``, with the processor's instruction."""
    state = checksum ^ _ALL_ONES
    stop = begin + length
    while begin + 8 <= stop:
        state = _instruction_8_bytes(state, load_i64(begin))
        begin += 8
    while begin < stop:
        state = _instruction_1_byte(state, load_u8(begin))
        begin += 1
    return state ^ _ALL_ONES


@compiled
def extend_by_tables(checksum: int, begin: int, length: int) -> int:
    """Extend ``checksum`` over ``length`` bytes at address ``begin``, with tables."""
    state = checksum ^ _ALL_ONES
    stop = begin + length
    while begin + 8 <= stop:
        word = load_i64(begin) ^ state
        state = (
            TABLES[0x700 | word & 0xFF]
            ^ TABLES[0x600 | word >> 8 & 0xFF]
            ^ TABLES[0x500 | word >> 16 & 0xFF]
            ^ TABLES[0x400 | word >> 24 & 0xFF]
            ^ TABLES[0x300 | word >> 32 & 0xFF]
            ^ TABLES[0x200 | word >> 40 & 0xFF]
            ^ TABLES[0x100 | word >> 48 & 0xFF]
            ^ TABLES[word >> 56 & 0xFF]
        )
        begin += 8
    while begin < stop:
        state = TABLES[(state ^ load_u8(begin)) & 0xFF] ^ state >> 8
        begin += 1
    return state ^ _ALL_ONES


extend = extend_by_instruction if has_instruction() else extend_by_tables
"""Extend a checksum (0 to begin with) over bytes at an address."""


@inlined
def masked(checksum: int) -> int:
    """The form in which event files store a checksum: rotated by 15 bits, plus a constant (TFRecord format)."""
    return ((checksum >> 15 | checksum << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


@inlined
def masked_checksum(begin: int, length: int) -> int:
    """The masked CRC-32C of ``length`` bytes at address ``begin``."""
    return masked(extend(0, begin, length))
