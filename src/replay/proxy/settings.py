"""Settings in data classes: checks with messages that help, and the way to plain values and back."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import types
import typing
from collections.abc import Hashable
from typing import Any, Literal, TypeVar, cast

from replay.errors import ReplayError

T = TypeVar("T")


class ConfigError(ReplayError, ValueError):
    """A setting that cannot be: the message names the field, the value and what would be accepted."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


LARGEST_NUMBER = 1e38
"""Settings are computed with in float32, which ends a little above."""

MOST_STEPS = 2**40
"""Bound of all that counts steps or batches: more than any run does, and within what random streams are numbered by."""


def shown(value: object) -> str:
    """A value in a message, on one line and not too long for it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no integer of more than 4,300 digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"


def require_positive(name: str, value: float) -> None:
    require(0 < value <= LARGEST_NUMBER, f"{name} must be a positive number up to 1e38, not {shown(value)}")


def require_not_negative(name: str, value: float) -> None:
    require(0 <= value <= LARGEST_NUMBER, f"{name} must be zero or a positive number up to 1e38, not {shown(value)}")


def require_whole(name: str, value: int, least: int, most: int = MOST_STEPS) -> None:
    require(least <= value <= most, f"{name} must lie between {least:,} and {most:,}, not {shown(value)}")


def require_share(name: str, value: float) -> None:
    require(0.0 <= value <= 1.0, f"{name} must lie between 0 and 1, not {shown(value)}")


def require_choice(name: str, value: object, annotation: Any) -> None:
    allowed = typing.get_args(annotation)
    if value not in allowed:
        close = difflib.get_close_matches(shown(value).strip("'"), allowed, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {shown(value)}{hint}")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of JSON in which no key stands twice, as json's ``object_pairs_hook``."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(f"{shown(key)} is given twice in one mapping; leave one of the two out")
        values[key] = value
    return values


def read_json(text: str) -> Any:
    """What a text in JSON holds.

    Raises:
        ConfigError: not JSON, a number too long to be read, lists too deep in each other, or a key that stands twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        raise ConfigError(f"line {error.lineno}: not JSON: {error.msg}") from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise ConfigError(f"not JSON that can be read: {error}") from error
    except RecursionError as error:
        raise ConfigError("not settings: mappings or lists stand in each other thousands deep") from error


@functools.cache
def _hints_of(owner: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(owner)


def _hints(owner: Any) -> dict[str, Any]:
    return _hints_of(owner)


def plain(value: object) -> object:
    """Data classes as dictionaries; a whole number in a field of floats as a float, so that equals look alike."""
    if dataclasses.is_dataclass(value):
        hints = _hints(type(value))
        values = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return {name: float(inner) if hints[name] is float else plain(inner) for name, inner in values.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def require_known_fields(owner: type, names: set[str], prefix: str) -> None:
    known = [item.name for item in dataclasses.fields(cast(Any, owner))]
    for name in sorted(names - set(known)):
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {prefix}{close[0]}?" if close else f"; there are {', '.join(known)}"
        raise ConfigError(f"no setting {prefix}{name if len(name) <= 80 else shown(name)}{hint}")


def build(owner: type[T], values: object, prefix: str) -> T:
    if not isinstance(values, dict):
        named = prefix.removesuffix(".") or "config"
        raise ConfigError(f"{named}: a mapping of settings is needed, not {shown(values)}")
    require_known_fields(owner, set(values), prefix)
    fields = dataclasses.fields(cast(Any, owner))
    required = [one.name for one in fields if one.default is one.default_factory is dataclasses.MISSING]
    if missing := [name for name in required if name not in values]:
        raise ConfigError(f"{prefix.removesuffix('.') or 'config'}: {' and '.join(missing)} must be given")
    hints = _hints(owner)
    return owner(**{name: convert(hints[name], value, f"{prefix}{name}") for name, value in values.items()})


def convert(hint: Any, value: Any, name: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        inner = next(item for item in typing.get_args(hint) if item is not type(None))
        return None if value is None else convert(inner, value, name)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{name}: a list is needed, not {shown(value)}")
        return tuple(convert(typing.get_args(hint)[0], item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin is Literal:
        require_choice(name, value, hint)
        return value
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, cast(type, hint)) else build(cast(type, hint), value, f"{name}.")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        require(abs(value) <= LARGEST_NUMBER, f"{name}: a number within 1e38 of 0 is needed, not {shown(value)}")
        return float(value)
    if type(value) is not hint:
        raise ConfigError(f"{name}: {hint.__name__} is needed, not {shown(value)}")
    return value
