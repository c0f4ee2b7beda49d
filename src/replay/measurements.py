"""What scalars say between the lines: a loss that is missing because it is not a number, a gradient norm that is stale.

Megatron prints no loss when it is not greater than zero, so that the *absence* is the symptom; and a step whose
update was skipped repeats the gradient norm of the last one that was not (BigScience tr8b-104B, 17061-17068).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COMPANIONS = ("learning_rate", "grad_norm", "loss_scale", "batch_size", "step_time", "samples", "tokens", "throughput")
"""Signals that a trainer logs with its loss."""
_STALE_DIGITS = 6
_TOGETHER = 0.95
_STEPS_BEFORE = 3


def missing_losses(scalars: pd.DataFrame) -> pd.DataFrame:
    """Steps that were reported without the loss that belongs there.

    ``scalars``: columns source, tag, signal, attempt, step, wall_time, value.  Returns the columns source, tag (that
    of the loss), attempt, step, wall_time, companion (the tag that was reported there), sorted.  A loss counts as
    missing where another signal, always reported with it before, is reported without it.  What may only not have
    been written yet, as at the end of an event file, does not count.
    """
    found = []
    used = scalars[scalars["signal"].isin(["loss", *COMPANIONS])]
    for _, rows in used.groupby(["source", "attempt"], sort=True):
        missing = _missing(rows)
        if missing is not None:
            found.append(missing.assign(source=rows["source"].iloc[0], attempt=rows["attempt"].iloc[0]))
    columns = ["source", "tag", "attempt", "step", "wall_time", "companion"]
    if not found:
        return pd.DataFrame(columns=columns)
    return pd.concat(found, ignore_index=True)[columns].sort_values(["attempt", "step", "source"], ignore_index=True)


def _missing(rows: pd.DataFrame) -> pd.DataFrame | None:
    """The same for one source and attempt."""
    losses = rows[rows["signal"] == "loss"]
    if losses.empty:
        return None
    tag = str(losses["tag"].value_counts().idxmax())
    with_loss = np.unique(losses.loc[losses["tag"] == tag, "step"].to_numpy(np.int64))
    others = rows[rows["signal"] != "loss"]
    for companion in others["tag"].value_counts().index:
        reports = others[others["tag"] == companion].drop_duplicates("step").sort_values("step")
        steps = reports["step"].to_numpy(np.int64)
        if np.mean(np.isin(with_loss, steps)) < _TOGETHER:
            continue
        begun = steps >= with_loss[0]
        absent = begun & ~np.isin(steps, with_loss)
        if _is_a_symptom(steps[begun], absent[begun], atomic=bool(reports["wall_time"].isna().all())):
            missing: pd.DataFrame = reports.loc[absent, ["step", "wall_time"]]
            return missing.assign(tag=tag, companion=str(companion))
        return None
    return None


def _is_a_symptom(steps: NDArray[np.int64], absent: NDArray[np.bool_], *, atomic: bool) -> bool:
    """Whether losses are missing among reports that begin with one, rather than reported less often.

    ``atomic``: a report is one line, so that the last one is complete.
    """
    if not absent.any():
        return False
    first = int(np.argmax(absent))
    if first < _STEPS_BEFORE:
        return False
    if not atomic and first == len(steps) - 1:
        return False
    # Where a loss comes back time and again between more reports without it, it is reported less often.
    after = absent[first:]
    returns = int(np.count_nonzero(np.diff(after.astype(np.int8)) == -1))
    return not (returns >= _STEPS_BEFORE and float(np.mean(after)) > 0.4)


def stale(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Values that repeat the one before to the last digit, where there are digits enough that chance does not."""
    repeated = np.zeros(len(values), dtype=bool)
    repeated[1:] = (values[1:] == values[:-1]) & np.isfinite(values[1:])
    for index in np.flatnonzero(repeated).tolist():
        digits = f"{abs(values[index]):.7g}".partition("e")[0].replace(".", "").lstrip("0").rstrip("0")
        repeated[index] = len(digits) >= _STALE_DIGITS
    return repeated
