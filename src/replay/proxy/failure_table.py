"""The results of a verification as a table: docs/failures.md, and rows for the command line."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replay.intervals import share_interval
from replay.proxy.assessment import Result, lead_order, rival_sign
from replay.proxy.failure import Failure, Sign
from replay.proxy.failures import CATALOGUE
from replay.proxy.tables import joined, number, opening, table
from replay.proxy.verification import WITH, WITHOUT

REPRODUCED_WITH = 0.75
"""A failure counts as reproduced when this share of its seeds go wrong with the cause, and none without it."""

_TERMS = (
    'The terms: "tried as a cure" is what it was meant to be, the count beside it says whether it is one. The '
    "step of a failure is what its criterion dates it by. A sign is *ahead* by so many steps when it first held "
    "that long before that step, counted within a window of steps up to it, which each section states, and never "
    "before the cause set in. *Quiet* steps are those at which a sign has no reason to hold: all steps of a run "
    "that stayed well, or those before the window and the cause of one that went wrong; the first 20, and those "
    "up to the first learning of the task, left out. A sign that holds there is a false alarm. Any sign can be made "
    "to lead by making the other dull; the order is therefore told against the loss watched as keenly as it can be "
    "without more false alarms than the leading sign gives (above 2, 1.5 or 1.25 medians)."
)


@dataclass(frozen=True)
class ArmRow:
    """One arm of a failure over its seeds: ``kind`` is "cause", "control", "cure" or "contrast".

    ``wrong`` of ``seeds`` went wrong, with Wilson's 95% interval for that share; ``peak`` and ``final`` are medians.
    """

    failure: str
    arm: str
    kind: str
    wrong: int
    seeds: int
    low: float
    high: float
    peak: float
    final: float


def arm_rows(results: Sequence[Result]) -> list[ArmRow]:
    """Incidence, peak and final loss by failure and arm."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.failure, result.arm), []).append(result)
    rows = []
    for (failure, arm), group in groups.items():
        wrong = sum(result.wrong_at is not None for result in group)
        low, high = share_interval(wrong, len(group))
        peak, final = _median(result.peak for result in group), _median(result.final for result in group)
        rows.append(ArmRow(failure, arm, _kind(failure, arm), wrong, len(group), low, high, peak, final))
    return rows


def _median(values: Iterable[float]) -> float:
    """The median where what is not finite counts as larger than any number."""
    return statistics.median(value if math.isfinite(value) else math.inf for value in values)


def _kind(failure: str, arm: str) -> str:
    if arm in (WITH, WITHOUT):
        return "cause" if arm == WITH else "control"
    return next(one.kind for one in CATALOGUE[failure].arms if one.name == arm)


def status(failure: Failure, rows: Sequence[ArmRow]) -> str:
    """ "reproduced", "signal only", "not reproduced" or "not verified"."""
    by_arm = {row.arm: row for row in rows if row.failure == failure.name}
    if WITH not in by_arm or WITHOUT not in by_arm or by_arm[WITH].seeds < 8:
        return "not verified"
    held = by_arm[WITH].wrong >= REPRODUCED_WITH * by_arm[WITH].seeds and by_arm[WITHOUT].wrong == 0
    if not held:
        return "not reproduced"
    return "signal only" if failure.harmless else "reproduced"


def sign_lines(failure: Failure, results: Sequence[Result]) -> list[str]:
    """What each sign was worth: how often and how long ahead it was seen, and how often without reason."""
    wrong = [r for r in results if r.failure == failure.name and r.arm == WITH and r.wrong_at is not None]
    quiet = [r for r in results if r.failure == failure.name and r.arm in (WITH, WITHOUT)]
    return [_sign_line(sign, wrong, quiet) for sign in failure.signs] if wrong else []


def order_line(failure: Failure, results: Sequence[Result]) -> str:
    """On how many seeds the leading sign came before the loss's own, told at a like count of false alarms."""
    pairs = [r for r in results if r.failure == failure.name and r.arm in (WITH, WITHOUT)]
    wrong = [r for r in pairs if r.arm == WITH and r.wrong_at is not None]
    rival = rival_sign(failure, pairs)
    orders = [lead_order(failure, result, rival) for result in wrong]
    words = {
        "ahead": "ahead in {}",
        "same step": "at the same step in {}",
        "behind": "behind it in {}",
        "alone": "alone in {}, where the loss shows nothing up to the failure",
        "not seen": "not seen in {}",
    }
    told = ", ".join(text.format(orders.count(order)) for order, text in words.items() if order in orders)
    return f"{failure.signs[0]}, told against {rival}, on {len(wrong)} seeds: {told}"


def _sign_line(sign: Sign, wrong: Sequence[Result], quiet: Sequence[Result]) -> str:
    leads = [lead for result in wrong if (lead := result.leads.get(str(sign))) is not None]
    ahead = [lead for lead in leads if lead > 0]
    if not leads:
        text = f"not seen in any of {len(wrong)}"
    elif not ahead:
        text = f"at the same step in {len(leads)} of {len(wrong)}, never ahead"
    else:
        spread = f"{min(ahead)} to {max(ahead)}" if min(ahead) != max(ahead) else f"{ahead[0]}"
        text = f"ahead in {len(ahead)} of {len(wrong)}, by {statistics.median(ahead):g} steps (median; {spread})"
    return "; ".join([f"{sign}: {text}", *_false_alarms(sign, quiet)])


def _false_alarms(sign: Sign, quiet: Sequence[Result]) -> list[str]:
    """At how many quiet steps a sign held, by the kind of run; kinds without such steps are left out."""
    kinds = {
        "of runs without the cause": [r for r in quiet if r.arm == WITHOUT],
        "of runs with it that stayed well": [r for r in quiet if r.arm == WITH and r.wrong_at is None],
        "of runs that went wrong": [r for r in quiet if r.arm == WITH and r.wrong_at is not None],
    }
    counts = []
    for kind, runs in kinds.items():
        if steps := sum(run.quiet for run in runs):
            counts.append(f"{sum(run.alarms.get(str(sign), 0) for run in runs)} of {steps} quiet steps {kind}")
    return counts


def markdown(results: Sequence[Result], torch_version: str) -> str:
    """The page docs/failures.md."""
    rows = arm_rows(results)
    states = {failure.name: status(failure, rows) for failure in CATALOGUE.values()}
    count = sum(state == "reproduced" for state in states.values())
    lines = opening(
        "Failures of the proxy",
        "replay proxy failures verify --docs docs/failures.md",
        "Seeds that were not used while searching, nor in an earlier verification after whose results a criterion, an "
        f"arm or the arithmetic was changed; torch {torch_version}, one thread. "
        "A failure counts as reproduced when it happens on at least three quarters of the seeds with its "
        "cause and on none without it; intervals are Wilson's 95%. With eight seeds, eight of eight means a true "
        f"incidence above {share_interval(8, 8)[0]:.0%}. {count} of {len(states)} are reproduced.",
    )
    lines += ["", _TERMS]
    overview = [
        [
            str(failure.number),
            f"[{failure.title}](#{failure.name})",
            *(_incidence(rows, failure.name, arm) for arm in (WITH, WITHOUT)),
            states[failure.name],
        ]
        for failure in CATALOGUE.values()
    ]
    lines += ["", *table(["#", "failure", "with the cause", "without", "status"], overview)]
    for failure in CATALOGUE.values():
        lines += _section(failure, results, rows, states[failure.name])
    return joined(lines)


def _incidence(rows: Sequence[ArmRow], failure: str, arm: str) -> str:
    for row in rows:
        if (row.failure, row.arm) == (failure, arm):
            return f"{row.wrong} of {row.seeds} ({row.low:.0%} to {row.high:.0%})"
    return "not run"


def _section(failure: Failure, results: Sequence[Result], rows: Sequence[ArmRow], state: str) -> list[str]:
    lines = [
        "",
        f'## <a id="{failure.name}"></a>{failure.number}. {failure.title}',
        "",
        f"`{failure.name}`: {state}.",
        "",
        failure.mechanism,
        "",
        f"- Source: {failure.source}.",
        f"- Settings: {failure.settings}.",
        f"- Expected: {failure.signature}.",
        f"- Leading or first signal: `{failure.leading_signal}`.",
        f"- Counts as gone wrong: {failure.criterion}.",
        f"- Verified on seeds from {failure.first_seed} on.",
        "",
    ]
    sources = {arm.name: arm.source for arm in failure.arms}
    runs = [
        [
            row.arm,
            "tried as a cure" if row.kind == "cure" else row.kind,
            sources.get(row.arm, ""),
            _incidence(rows, failure.name, row.arm),
            number(row.peak),
            number(row.final),
        ]
        for row in rows
        if row.failure == failure.name
    ]
    lines += table(["run", "kind", "source", "went wrong", "median peak", "median final loss"], runs)
    peak = "largest rise of the held-out loss behind the moment of the cause"
    if not failure.held_out:
        peak = "largest mean loss of five steps behind the first learned, or the lowest where nothing was"
    lines += ["", f"Peak: {peak}, nats. Final loss: of the last 20 steps, in training."]
    if signs := sign_lines(failure, results):
        lines += ["", f"Signs, in the {failure.window} steps up to the failure:", "", *(f"- {line}." for line in signs)]
        lines += [f"- Order: {order_line(failure, results)}."]
        lines += [f"- {failure.lead_note}."] if failure.lead_note else []
    return [*lines, "", f"The search: {failure.search}"]
