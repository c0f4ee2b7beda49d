"""What to say of a file that no parser recognises: why that may be, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping

from replay_parsers.parser import ENTRY_POINT_GROUP, Sample

TOO_SHORT = 16
"""An event file's first record has a frame of so many bytes; a line of a log that says anything is longer."""

_PROSE_NAMES = (".md", ".markdown", ".rst")
_YAML_NAMES = (".yaml", ".yml")


def reason(seen: Sample, tried: Mapping[str, float]) -> str:
    """Why the file is not read; ``tried`` maps each format that it was taken for to the parser's confidence."""
    doubtful = sorted((item for item in tried.items() if item[1] > 0), key=lambda item: -item[1])
    nearest = ", ".join(f"{name} {confidence:.2f}" for name, confidence in doubtful)
    formats = f"({len(tried)} formats tried{f', nearest: {nearest}' if nearest else ''})"
    return f"no parser recognises it {formats}: {_advice(seen)}"


def _advice(seen: Sample) -> str:
    if not seen.head.strip(b"\0"):
        return "it begins with nothing but zero bytes, as a crash leaves a file; restore it, or wait for its writer"
    if seen.whole and len(seen.head) < TOO_SHORT and b"\n" not in seen.head:
        size = "1 byte is" if len(seen.head) == 1 else f"{len(seen.head)} bytes are"
        return f"its {size} too few to tell; ingest it again when its writer has gone on"
    if seen.path.name.lower().endswith(_YAML_NAMES) and _is_list(seen.text):
        return "its top is a list, while a logbook in YAML is a mapping with `run:` and `incidents:`, a list"
    if b"\0" in seen.head:
        return "it is binary, and the only binary files that are read are TensorBoard's event files"
    if seen.path.name.lower().endswith(_PROSE_NAMES):
        return (
            "a logbook in prose is read where its entries begin with dates (`## 2024-05-06 14:30 loss spike`), "
            "as headings, bullets or rows of a table; of a log of numbers, write CSV or JSON lines with a column `step`"
        )
    return (
        "of a log, write the numbers as CSV or JSON lines with a column `step`; "
        f"or install a parser of its format (entry point {ENTRY_POINT_GROUP})"
    )


def _is_list(text: str) -> bool:
    """Whether a YAML document is a list: what comes first of it, after comments, is an item."""
    lines = (line for line in text.lstrip("\ufeff").splitlines() if line.strip())
    return next((line for line in lines if not line.startswith(("#", "---", "%"))), "").startswith("- ")
