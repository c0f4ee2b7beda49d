"""Text as files can hold it."""

from __future__ import annotations


def storable(text: str) -> str:
    """``text`` without what UTF-8 cannot hold (half a surrogate pair becomes an escape)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
