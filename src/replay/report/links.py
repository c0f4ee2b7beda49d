"""Where a source can be read: the address that a logbook gives for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from replay.output import visible

_URL_OF = "url of "
"""A logbook's sources come as the run's metadata under their titles with this before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLink:
    """A source as it is named, and its address; "" where none is known."""

    name: str
    url: str


class Links:
    """The addresses of a run's sources by their titles."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        metadata = facts.get("metadata") or {}
        self._urls = {
            str(name).removeprefix(_URL_OF): str(url)
            for name, url in metadata.items()
            if str(name).startswith(_URL_OF) and is_web_address(str(url))
        }

    def __call__(self, source: str) -> SourceLink:
        """A single source."""
        return SourceLink(name=source, url=self._urls.get(source, ""))

    def each(self, sources: str) -> list[SourceLink]:
        """The sources of an incident, which its row joins with semicolons."""
        return [self(source) for source in sources.split("; ") if source]


def configuration(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What else the sources say of the run's configuration: its metadata but for addresses, by name."""
    metadata = facts.get("metadata") or {}
    return sorted((str(name), str(value)) for name, value in metadata.items() if not str(name).startswith(_URL_OF))


def is_web_address(url: str) -> bool:
    """Whether a link to ``url`` does nothing but open a page: no script, no file of the reader's.

    >>> is_web_address("https://example.org/log.md"), is_web_address("javascript:alert(1)")
    (True, False)
    """
    if visible(url) != url or any(character.isspace() for character in url):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
