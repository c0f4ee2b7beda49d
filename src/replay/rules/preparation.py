"""From a store's scalars to the series that rules read."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replay import signals
from replay.lineage.segments import microseconds
from replay.measurements import missing_losses, stale
from replay.rules.series import Series
from replay.signal_files import normalise

_STEPS_A_SECOND = ("ups", "bps", "steps_per_second", "steps_per_sec", "batches_per_second", "batches_per_sec")


def from_scalars(scalars: pd.DataFrame) -> dict[str, Series]:
    """One series for every signal.

    ``scalars``: the scalars of one run with columns source, tag, step, wall_time, value, attempt, and signal where
    it is known (else found by the tag).  Rows without an attempt or signal are left out.  Of several tags for one
    signal, each attempt takes the one with most rows; of several sources, the one with most rows goes first and the
    others fill in.  A loss that is missing where it was always reported is NaN (see :mod:`replay.measurements`), so
    is a loss of exactly 0 beside a gradient norm that is NaN; stale gradient norms are left out.  Where throughput
    is not logged, it is the batch size over the time of a step.
    """
    chosen = measured(scalars)
    result = {signal: _series(rows) for signal, rows in chosen.items()}
    if "loss" in result:
        result["loss"] = _with_missing(result["loss"], missing_losses(_named(scalars)), result.get("grad_norm"))
    if "grad_norm" in result:
        norms = result["grad_norm"]
        result["grad_norm"] = norms[~stale(norms.value)]
    throughput = _throughput(chosen)
    if throughput is not None:
        result["throughput"] = throughput
    return dict(sorted(result.items()))


def measured(scalars: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Per signal the rows of one tag an attempt, one a step, in order of attempts and steps; columns as given.

    The choice of tags and sources is that of :func:`from_scalars`.
    """
    scalars = _named(scalars)
    scalars = scalars[scalars["signal"].notna() & scalars["attempt"].notna()]
    return {str(signal): _one_tag(rows) for signal, rows in scalars.groupby("signal", sort=True)}


def _named(scalars: pd.DataFrame) -> pd.DataFrame:
    if "signal" in scalars:
        return scalars
    names = {tag: signals.signal_of(tag) for tag in scalars["tag"].unique()}
    return scalars.assign(signal=scalars["tag"].map(names))


def _one_tag(rows: pd.DataFrame) -> pd.DataFrame:
    """Per attempt the rows of one tag, one a step, in order."""
    rank = {tag: index for index, tag in enumerate(signals.tags_for(str(rows["signal"].iloc[0]), rows["tag"].unique()))}
    counts = rows.groupby(["attempt", "tag"]).size().rename("of_tag").reset_index()
    counts = counts.assign(rank=counts["tag"].map(rank).fillna(len(rank)))
    best = counts.sort_values(["attempt", "of_tag", "rank"], ascending=[True, False, True]).drop_duplicates("attempt")
    rows = rows.merge(best[["attempt", "tag"]], on=["attempt", "tag"])
    of_source = rows.groupby(["attempt", "source"])["step"].transform("size")
    ordered = rows.assign(_rows=-of_source).sort_values(["attempt", "step", "_rows", "source"], kind="stable")
    return ordered.drop_duplicates(["attempt", "step"]).drop(columns="_rows")


def _series(rows: pd.DataFrame) -> Series:
    return Series(
        step=rows["step"].to_numpy(np.int64),
        wall_time=microseconds(rows["wall_time"]),
        value=rows["value"].to_numpy(np.float64),
        attempt=rows["attempt"].to_numpy(np.int32),
    )


def _with_missing(loss: Series, missing: pd.DataFrame, norms: Series | None) -> Series:
    """``loss`` with NaN where it is missing, or printed as 0 because it is NaN."""
    value = loss.value.copy()
    if norms is not None:
        unknown = {(int(a), int(s)) for a, s, v in zip(norms.attempt, norms.step, norms.value, strict=True) if v != v}
        for index in np.flatnonzero(value == 0).tolist():
            if (int(loss.attempt[index]), int(loss.step[index])) in unknown:
                value[index] = np.nan
    present = set(zip(loss.attempt.tolist(), loss.step.tolist(), strict=True))
    missing = missing.drop_duplicates(["attempt", "step"])
    fresh = [key not in present for key in zip(missing["attempt"].tolist(), missing["step"].tolist(), strict=True)]
    missing = missing[np.array(fresh, dtype=bool)]
    if missing.empty:
        return Series(loss.step, loss.wall_time, value, loss.attempt)
    joined = Series.joined(
        [
            Series(loss.step, loss.wall_time, value, loss.attempt),
            Series(
                step=missing["step"].to_numpy(np.int64),
                wall_time=microseconds(missing["wall_time"]),
                value=np.full(len(missing), np.nan),
                attempt=missing["attempt"].to_numpy(np.int32),
            ),
        ]
    )
    return joined[np.lexsort((joined.step, joined.attempt))]


def _throughput(chosen: dict[str, pd.DataFrame]) -> Series | None:
    """Samples a second where only steps a second, or seconds a step, are logged: a larger batch is no regression."""
    if "throughput" in chosen:
        tags = chosen["throughput"]["tag"].unique()
        if not all(str(tag).casefold().rpartition("/")[2].replace(" ", "_") in _STEPS_A_SECOND for tag in tags):
            return None
        steps = chosen["throughput"]
        rate = steps.assign(value=steps["value"])
    elif "step_time" in chosen:
        steps = chosen["step_time"]
        seconds = steps["value"].where(steps["value"] > 0) * steps["tag"].map(_seconds_a_unit)
        rate = steps.assign(value=1 / seconds)
    else:
        return None
    if "batch_size" in chosen:
        rate = rate.assign(value=rate["value"] * _size_at(rate, chosen["batch_size"]))
    return _series(rate)


def _seconds_a_unit(tag: str) -> float:
    """Megatron's key was first in milliseconds, then in seconds; one run may have both."""
    return 1e-3 if normalise(tag).endswith("_ms") else 1.0


def _size_at(rate: pd.DataFrame, sizes: pd.DataFrame) -> NDArray[np.float64]:
    """Per row of ``rate`` the batch size last reported in its attempt; before any was, the first one that is."""
    size = np.full(len(rate), sizes["value"].iloc[0])
    for attempt, rows in sizes.groupby("attempt"):
        here = (rate["attempt"] == attempt).to_numpy(bool)
        known = (
            np.searchsorted(rows["step"].to_numpy(np.int64), rate["step"].to_numpy(np.int64)[here], side="right") - 1
        )
        size[here] = rows["value"].to_numpy(np.float64)[np.maximum(known, 0)]
    return size
