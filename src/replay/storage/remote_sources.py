"""Finding what to read at a URL, as :mod:`replay.storage.sources` does on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from replay.storage.candidates import Candidate, Found, PassedOver, around_checkpoints, run_names
from replay.storage.layout import FORMAT_FILE
from replay.storage.remote import Remote, RemoteError, find
from replay.storage.urls import shown, storable

_DEEPEST = 32
"""Folders inside folders; a web server may make up ever more of them."""

_LAST_SLASHES = re.compile(r"(?<![:/])/+$")


def under(url: str, run: str | None) -> Iterator[Found]:
    """The file at ``url``, or everything in the folder; ``run`` names the run of all files."""
    own, chain, outer = shown(storable(url)).partition("::")
    walk = _Walk(run, chain + outer)
    own = _LAST_SLASHES.sub("", own)
    try:
        one = find(url)
    except RemoteError as error:
        yield walk.failed(own, _reason(error), exists=not error.missing)
        return
    if one.kind == "directory":
        yield from walk.folder(one, own, ())
    elif one.kind == "file":
        # Seen from its own folder, so that it gets the same name as when the folder is given.
        yield walk.candidate(one, own, (), asked_for=True)
    else:
        yield walk.failed(own, _special(one))


def _reason(error: RemoteError) -> str:
    return str(error) if error.missing else f"cannot be opened: {error}"


def _special(one: Remote) -> str:
    return f"neither file nor folder ({one.kind}): name what it leads to"


class _Walk:
    """The files of one file system; ``archive`` ends the names of those inside a file: ``::s3://bucket/logs.zip``."""

    def __init__(self, run: str | None, archive: str) -> None:
        self.run = run
        self.archive = archive

    def failed(self, own: str, reason: str, *, exists: bool = True) -> PassedOver:
        """``own`` as something that should have been readable."""
        return PassedOver(source=own + self.archive, reason=reason, failure=True, exists=exists)

    def folder(self, folder: Remote, own: str, inside: tuple[str, ...]) -> Iterator[Found]:
        """Everything in ``folder``, whose URL is ``own``; ``inside`` are the folders that led here."""
        if len(inside) > _DEEPEST:
            yield self.failed(own, f"lies more than {_DEEPEST} folders deep")
            return
        try:
            children = folder.children()
        except RemoteError as error:
            yield self.failed(own, f"the folder cannot be opened: {error}")
            return
        if any(child.name == FORMAT_FILE for child in children):
            yield PassedOver(source=own + self.archive, reason="a replay store, not a log")
            return
        for child in children:
            place = shown(f"{own}{'' if own.endswith('/') else '/'}{child.name}")
            if child.name.startswith("."):
                yield PassedOver(source=place + self.archive, reason="hidden")
            elif child.kind == "directory":
                yield from self.folder(child, place, (*inside, child.name))
            elif child.kind == "file":
                yield self.candidate(child, place, inside, asked_for=False)
            else:
                yield PassedOver(source=place + self.archive, reason=_special(child))

    def candidate(self, one: Remote, own: str, inside: tuple[str, ...], *, asked_for: bool) -> Candidate:
        """``one`` as something to read, with the name that its run gets from where it lies."""
        scheme, separator, rest = own.partition("://")
        place = PurePosixPath(rest.partition("?")[0])
        run, file_run = run_names(place, inside, place.parents[len(inside)])
        return Candidate(
            path=Path(place.name),
            source=own + self.archive,
            run=self.run or run,
            file_run=self.run or file_run,
            named_by="given" if self.run else "place",
            folder=f"{scheme}{separator}{around_checkpoints(place.parent)}{self.archive}",
            asked_for=asked_for,
            remote=one,
        )
