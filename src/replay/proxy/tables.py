"""Pages of markdown that the proxy's commands write: what stands at their top, tables, numbers, intervals.

Pages hold nothing that differs from one time to the next: no times, no dates, no paths.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from replay.intervals import t_interval
from replay.target_files import write_target

MECHANISM = (
    "A proxy of some 30,000 parameters shows a mechanism, not a magnitude: that something happens and in which "
    "order, not how much of it a large model would see."
)

UNCORRECTED = (
    "The page has many intervals, and none is corrected for their number: where nothing at all has an effect, about "
    "one of every twenty differences leaves out 0 all the same. One that holds 0 does not show that there is no "
    "effect; it may be too small for so few seeds."
)


def opening(title: str, command: str, *paragraphs: str) -> list[str]:
    """The lines at the top of a page: its title, the command that writes it, paragraphs."""
    lines = [f"# {title}", "", f"Written by `{command}`; do not edit by hand."]
    for paragraph in paragraphs:
        lines += ["", paragraph]
    return lines


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; the heads may be given for no rows at all."""
    lines = [head, *rows]
    cells = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
    return [cells[0], f"|{'---|' * len(head)}", *cells[1:]]


def made_with() -> str:
    """What decides the bits beside the settings: torch's version, the processor's instructions, the threads."""
    import torch

    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread"


def seeds_told(seeds: Iterable[int]) -> str:
    """Seeds in words.

    >>> seeds_told([0, 1, 2]), seeds_told([7])
    ('Seeds 0 to 2', 'Seed 7')
    """
    known = sorted(set(seeds))
    if len(known) == 1:
        return f"Seed {known[0]}"
    unbroken = known == list(range(known[0], known[-1] + 1))
    return f"Seeds {known[0]} to {known[-1]}" if unbroken else f"Seeds {', '.join(map(str, known))}"


def number(value: float, digits: int = 2) -> str:
    """A number with a fixed count of decimals; a zero has no sign.

    >>> number(-0.001), number(float("nan"))
    ('0.00', 'not finite')
    """
    if not math.isfinite(value):
        return "not finite"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, whole ones below a million in full.

    >>> significant(0.012345), significant(65536.0), significant(3.4e38)
    ('0.0123', '65536', '3.40e+38')
    """
    if not math.isfinite(value):
        return "not finite"
    if value == 0 or (float(value).is_integer() and abs(value) < 1e6):
        return str(int(value))
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.{digits - 1}e}"


def mean_told(values: Sequence[float], digits: int = 3) -> str:
    """Mean of values, one a seed, with Student's 95% interval where there are several.

    >>> mean_told([1.0, 2.0, 3.0], 1), mean_told([1.0], 1), mean_told([1.0, float("nan")])
    ('2.0 (-0.5 to 4.5)', '1.0', 'not finite in 1 of 2')
    """
    lost = sum(not math.isfinite(value) for value in values)
    if lost:
        return f"not finite in {lost} of {len(values)}"
    mean = number(statistics.fmean(values), digits)
    if len(values) < 2:
        return mean
    low, high = t_interval(np.array(values, dtype=np.float64))
    return f"{mean} ({number(low, digits)} to {number(high, digits)})"


def range_told(values: Sequence[float], digits: int = 1) -> str:
    """Median with the smallest and the largest, for what a mean says nothing of.

    >>> range_told([1.0, 900.0, 3.0], 0), range_told([5.0])
    ('3 (1 to 900)', '5.0')
    """
    middle = number(statistics.median(values), digits)
    low, high = number(min(values), digits), number(max(values), digits)
    return middle if len(values) < 2 else f"{middle} ({low} to {high})"


def joined(lines: Iterable[str]) -> str:
    """The text of a page of these lines."""
    return "\n".join(lines) + "\n"


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all.

    Raises:
        TargetFileError: the file or its folder cannot be written.
    """
    write_target(path, text.encode("utf-8"))
