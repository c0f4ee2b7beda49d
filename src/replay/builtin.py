"""The logbooks that come with replay, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# The wheel holds the logbooks inside the package; a checkout holds them at its root.
_FOLDERS = (_PACKAGE / "logbooks", _PACKAGE.parents[1] / "logbooks")


def builtin_folder() -> Path:
    """The folder of the built-in logbooks.

    Raises :class:`FileNotFoundError` when the installation lacks them.
    """
    for folder in _FOLDERS:
        if any(folder.glob("*.yaml")):
            return folder
    raise FileNotFoundError(
        f"the built-in logbooks are missing from {' and '.join(map(str, _FOLDERS))}; install training-replay anew"
    )


def builtin_logbooks() -> dict[str, Path]:
    """The built-in timelines by the name under which they are stored, in order of that name.

    The name (``logbooks/glm-130b.yaml``) does not depend on where replay is installed, so that a store built
    from them has the same bytes on every machine.

    Raises :class:`FileNotFoundError` when the installation lacks them.
    """
    return {f"logbooks/{path.name}": path for path in sorted(builtin_folder().glob("*.yaml"))}
