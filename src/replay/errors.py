"""The one base of errors that a user can do something about."""

from __future__ import annotations


class ReplayError(Exception):
    """Something the user can mend; the message says what and how, and the command line prints only that."""


class MissingProxyError(ReplayError):
    """The proxy's libraries are not installed."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"this needs {missing}: install replay with its proxy, pip install 'training-replay[proxy]'")
