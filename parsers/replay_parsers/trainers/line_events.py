"""Lines of a trainer log that tell of an event rather than of measured values, whatever the trainer.

DeepSpeed's overflow lines stand in Megatron logs, CUDA errors in all of them: every dialect shares these
recognisers (here, in :mod:`.checkpoint_lines` and in :mod:`.failure_lines`).  Each looks for a few fixed words and
then reads the line with a pattern of bounded repeats, so that no line can take long.
"""

from __future__ import annotations

import re

from replay_parsers.records import EventKind
from replay_parsers.trainers import checkpoint_lines, failure_lines
from replay_parsers.trainers.numbers import parse_number
from replay_parsers.trainers.seen import Recogniser, Seen

__all__ = ["Seen", "is_noise", "recognise"]

LOOKED_AT = 2_000
"""So many characters of a line are searched for events: summaries run to hundreds of kilobytes."""

_NUMBER = r"([0-9.eE+-]{1,32}|inf|nan)"
_ATTEMPTED = re.compile(
    rf"Attempted loss scale: {_NUMBER}(?:,\s{{0,4}}(?:reducing to {_NUMBER}|but hysteresis is (\d{{1,9}})\. Reducing "
    r"hysteresis to (\d{1,9})))?"
)
_OVERFLOW_RANK = re.compile(r"Rank:? (\d{1,9})")
_SET_SCALE = re.compile(rf"overflow detected,.{{0,40}}?setting loss scale to: {_NUMBER}")
_APEX = re.compile(rf"Gradient overflow\. {{1,4}}Skipping step,.{{0,40}}?reducing loss scale to {_NUMBER}")
_MINIMUM = re.compile(rf"Minimum loss scale reached \({_NUMBER}\)")
_LR_FACTOR = re.compile(rf"[Ss]caling LR by(?: a factor of)?:? {_NUMBER}(?: to {_NUMBER})?")


def _overflow(text: str) -> Seen | None:
    """DeepSpeed, in all its wordings (`loss_scaler.py`, `fused_optimizer.py`, `stage_1_and_2.py`)."""
    match = _ATTEMPTED.search(text)
    rank = _OVERFLOW_RANK.search(text, max(0, text.lower().find("overflow")))
    who = rank[1] if rank else ""
    kind = EventKind.OVERFLOW_SKIP
    if match is None:
        return Seen(kind, "gradients overflowed and the step was skipped", rank=who, same="overflow")
    attempted = parse_number(match[1])
    if match[3]:
        detail = {"hysteresis_before": match[3], "hysteresis_after": match[4]}
        said = f"gradients overflowed at loss scale {match[1]}; hysteresis keeps the scale"
        same = f"{match[1]} held {match[3]}"
        return Seen(kind, said, None, "loss_scale", attempted, attempted, detail, who, same)
    reduced = parse_number(match[2]) if match[2] else None
    said = f"gradients overflowed at loss scale {match[1]}" + (f"; it goes to {match[2]}" if match[2] else "")
    return Seen(kind, said, None, "loss_scale", attempted, reduced, {}, who, f"{match[1]} to {match[2]}")


def _overflow_setting_scale(text: str) -> Seen | None:
    """fairseq and metaseq (`dynamic_loss_scaler.py`), Apex."""
    match = _SET_SCALE.search(text) or _APEX.search(text)
    if match is None:
        return None
    said = f"gradients overflowed and were left out; the loss scale goes to {match[1]}"
    return Seen(EventKind.OVERFLOW_SKIP, said, None, "loss_scale", None, parse_number(match[1]), same=f"to {match[1]}")


def _scale_floor(text: str) -> Seen | None:
    match = _MINIMUM.search(text)
    after = parse_number(match[1]) if match else None
    said = "the loss scale cannot go lower: the trainer gives up"
    return Seen(EventKind.LOSS_SCALE_FLOOR, said, None, "loss_scale", None, after)


def _lr_factor(text: str) -> Seen | None:
    """metaseq lowers the learning rate by itself for a step whose loss spikes."""
    match = _LR_FACTOR.search(text)
    if match is None or parse_number(match[1]) is None:
        return None
    after = parse_number(match[2]) if match[2] else None
    said = f"the trainer scales the learning rate by {match[1]}" + (f" to {match[2]}" if match[2] else "")
    return Seen(EventKind.LR_CHANGE, said, None, "learning_rate", None, after, {"factor": match[1]}, same=match[0])


_RECOGNISERS: tuple[Recogniser, ...] = (
    ("Attempted loss scale", _overflow),
    ("OVERFLOW! ", _overflow),
    ("overflow detected, ", _overflow_setting_scale),
    ("Gradient overflow.", _overflow_setting_scale),
    ("Minimum loss scale reached", _scale_floor),
    ("loss scale already at minimum", _scale_floor),
    ("caling LR by", _lr_factor),
    *checkpoint_lines.RECOGNISERS,
    *failure_lines.RECOGNISERS,
)

_ANY = re.compile("|".join(re.escape(words) for words, _ in _RECOGNISERS))

_NOISE = re.compile(
    r"it/s\]|s/it\]|\d%\|"  # progress bars
    r"|^\s{0,8}(?:time|max time across ranks|\(min, max\) time across ranks) ?\(ms\)|rank=\d{1,6} time \(ms\)"  # timers
    r"|^\s{0,8}[-=*#]{8,}\s{0,8}$"  # rules
    r"|dynamic loss scale from|Grad overflow on iteration|saving checkpoint at iteration"
    r"|\] step=\d{1,18}, skipped=|SamplesPerSec="  # DeepSpeed's own reports, beside those of the trainer above it
)


def recognise(text: str) -> Seen | None:
    """What event a line tells of; None when it tells of none.

    >>> recognise("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768").after
    32768.0
    """
    text = text[:LOOKED_AT]
    found = _ANY.search(text)
    while found is not None:
        for words, read in _RECOGNISERS:
            if words == found[0] and (seen := read(text)) is not None:
                return seen
        found = _ANY.search(text, found.end())
    return None


def is_noise(text: str) -> bool:
    """Whether a line is known to say nothing that replay keeps: timers, rules, progress bars."""
    return _NOISE.search(text, 0, 400) is not None or _NOISE.search(text[-120:]) is not None
