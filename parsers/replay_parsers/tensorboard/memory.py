"""Loads and stores at raw addresses, for compiled code only.

numba's arrays cost reference counts and bounds wherever they are handed to a function; an address is one number.
Whoever passes addresses answers for them: input buffers carry spare bytes past their end (PADDING in
:mod:`~replay_parsers.tensorboard.layout`), so that eight bytes can be loaded at the last one.  Loads narrower than 64
bits extend with zeros; everything is int64, since numba turns mixed signs into floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.extending import intrinsic

__all__ = [
    "bits_to_f32",
    "bits_to_f64",
    "load_f32",
    "load_f64",
    "load_i64",
    "load_u8",
    "load_u16",
    "load_u32",
    "store_f64",
    "store_i32",
    "store_i64",
]

_INT64 = ir.IntType(64)
_FLOAT = ir.FloatType()
_DOUBLE = ir.DoubleType()


def _pointer(builder: Any, address: Any, pointee: ir.Type) -> Any:
    return builder.inttoptr(address, pointee.as_pointer())


def _integer_load(bits: int) -> Callable[[int], int]:
    def load(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_pointer(builder, arguments[0], ir.IntType(bits)), align=1)
            return value if bits == 64 else builder.zext(value, _INT64)

        return types.int64(types.int64), generate

    return cast(Callable[[int], int], intrinsic(load))


def _float_load(source: ir.Type) -> Callable[[int], float]:
    def load(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_pointer(builder, arguments[0], source), align=1)
            return value if source is _DOUBLE else builder.fpext(value, _DOUBLE)

        return types.float64(types.int64), generate

    return cast(Callable[[int], float], intrinsic(load))


def _store(numba_type: Any, target: ir.Type) -> Callable[[int, Any], None]:
    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, value = arguments
            if target is not _DOUBLE and target.width < 64:
                value = builder.trunc(value, target)
            builder.store(value, _pointer(builder, address, target), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, numba_type), generate

    return cast(Callable[[int, Any], None], intrinsic(store))


@intrinsic
def _bits_to_f64(_typing: Any, _bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _DOUBLE)

    return types.float64(types.int64), generate


@intrinsic
def _bits_to_f32(_typing: Any, _bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        narrow = builder.trunc(arguments[0], ir.IntType(32))
        return builder.fpext(builder.bitcast(narrow, _FLOAT), _DOUBLE)

    return types.float64(types.int64), generate


load_u8 = _integer_load(8)
load_u16 = _integer_load(16)
load_u32 = _integer_load(32)
load_i64 = _integer_load(64)
load_f32 = _float_load(_FLOAT)
load_f64 = _float_load(_DOUBLE)
store_i32 = _store(types.int64, ir.IntType(32))
store_i64 = _store(types.int64, _INT64)
store_f64 = _store(types.float64, _DOUBLE)
bits_to_f32 = cast(Callable[[int], float], _bits_to_f32)
"""The float32 whose bits are the low 32 of a number, widened exactly."""
bits_to_f64 = cast(Callable[[int], float], _bits_to_f64)
"""The float64 whose bits are those of a number."""
