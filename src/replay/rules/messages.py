"""One line that says what a rule saw, for people."""

from __future__ import annotations

from replay.rules.episodes import Episode


def spelled(value: float) -> str:
    """A number as a person would write it: four significant digits, no exponent where it can be helped."""
    if value != value:
        return "not a number"
    if value in (float("inf"), float("-inf")):
        return "infinite" if value > 0 else "minus infinite"
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def message(episode: Episode) -> str:
    """What happened, at which steps, measured against what."""
    name = episode.signal.replace("_", " ").replace("/", ": ")
    value, normal = spelled(episode.value), spelled(episode.baseline)
    where = (
        f"step {episode.step}" if episode.step == episode.step_end else f"steps {episode.step} to {episode.step_end}"
    )
    texts = {
        "spike": f"{name} rose to {value}{_ratio(episode)} a median of {normal} before",
        "drop": f"{name} fell to {value}{_ratio(episode)} a median of {normal} before",
        "drift": f"{name} left its course: {normal} before, off by {spelled(episode.score)} robust sigmas",
        "changepoint": f"{name} changed its level from {normal}, by {spelled(episode.score)} robust sigmas",
        "floor": f"{name} fell to {value}, at or below {normal}",
        "ceiling": f"{name} rose to {value}, at or above {normal}",
        "nonfinite": f"{name} is {value} ({_last(episode)})",
        "plateau": f"{name} no longer falls: nothing since is clearly below {normal}",
        "growth": f"{name} keeps growing: {spelled(episode.score)} times {normal}",
    }
    return f"{texts[episode.detector]}, {where}"


def _last(episode: Episode) -> str:
    known = episode.baseline == episode.baseline
    return f"last {spelled(episode.baseline)}" if known else "and no finite value was before it"


def _ratio(episode: Episode) -> str:
    """How many times the baseline, where that says something."""
    if episode.baseline <= 0 or episode.value <= 0:
        return ", from"
    ratio = episode.value / episode.baseline
    if ratio >= 1:
        return f", {spelled(ratio)} times"
    return f", 1/{spelled(1 / ratio)} of"
