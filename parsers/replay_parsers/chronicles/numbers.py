"""Numbers as people print them in logbooks, and ranges of whole ones."""

from __future__ import annotations

import re

NUMBER = (
    # "33k5" is 33,500; "2.9 万" is 29,000.
    r"(?:\d{1,4}k\d{1,3}(?!\w)|(?:\d[\d_,]{0,20}(?:\.\d{1,12})?(?:\s?[eE][-+]?\d{1,3})?|\.\d{1,12})"
    r"(?:\s?[kKM](?![A-Za-z])|\s?[万千](?!卡))?)"
)
_SCALE = {"k": 1e3, "m": 1e6, "万": 1e4, "千": 1e3}
_WITHIN = re.compile(r"(\d{1,4})k(\d{1,3})", re.IGNORECASE)
_RANGE = re.compile(
    rf"(?P<opens>[\[(]?)(?<![\w.-])(?P<a>{NUMBER})\s?(?:-|–|—|~|～|\.{{2,3}}|\bto\b|\bthrough\b|\btill\b|\buntil\b|"
    rf"\bup to\b|至|到)\s?(?P<not>but not (?:including )?)?(?P<b>{NUMBER})(?!\.\d|[\w]*\w)(?P<closes>[\])]?)"
    rf"|(?P<left>[\[(])\s?(?P<c>{NUMBER})\s?,\s(?P<d>{NUMBER})\s?(?P<right>[\])])"
    rf"|\bbetween (?:steps? |batch(?:es)? |iterations? )?(?P<e>{NUMBER}) and (?P<f>{NUMBER})(?![\w]*\w)",
    re.IGNORECASE,
)
_EXCLUSIVE = re.compile(r"\W{0,3}(?:exclusive|not included|excluded|\(excl)", re.IGNORECASE)


def number(text: str) -> float | None:
    """The value of a printed number, with separators, exponent or a k/M suffix; None when it is none.

    >>> number("300_000"), number("15k"), number("8e-6"), number("1,024"), number("33k5"), number("2.9 万")
    (300000.0, 15000.0, 8e-06, 1024.0, 33500.0, 29000.0)
    """
    cleaned = text.strip().replace("_", "").replace(",", "").replace(" ", "")
    if within := _WITHIN.fullmatch(cleaned):
        return float(f"{within[1]}.{within[2]}") * 1000
    scale = _SCALE.get(cleaned[-1:].lower(), 1.0)
    if scale != 1.0:
        cleaned = cleaned[:-1]
    try:
        value = float(cleaned) * scale
    except ValueError:
        return None
    # 6.1 * 1000 is not quite 6100: suffixed numbers are whole or have few decimals.
    return round(value, 6) if scale != 1.0 else value


def whole(text: str) -> int | None:
    """The value of a printed whole number below 2**62, None for anything else."""
    value = number(text)
    return int(value) if value is not None and value < 2**62 and value == int(value) else None


def ranges(text: str) -> list[tuple[int, int]]:
    """Ascending ranges of whole numbers ("701-900", "13251 to 14000", "[100, 200)"), both ends included.

    >>> ranges("--skip-train-iteration-range 11-14 16-18"), ranges("batches [100, 200)")
    ([(11, 14), (16, 18)], [(100, 199)])
    """
    found = []
    for match in _RANGE.finditer(text):
        names = ("a", "b") if match["a"] else ("c", "d") if match["c"] else ("e", "f")
        first, last = (whole(match[name]) for name in names)
        if first is None or last is None:
            continue
        opened = match["left"] or match["opens"] or ""
        closed = match["right"] or match["closes"] or ""
        # Only brackets of two kinds say that an end is left out: "(100-200)" is an aside.
        mixed = opened + closed in ("[)", "(]")
        first += mixed and opened == "("
        last -= bool((mixed and closed == ")") or match["not"] or _EXCLUSIVE.match(text[match.end() :]))
        if first < last:
            found.append((first, last))
    return found
