"""Attempts: from several files, from steps that go back in one, and from what a logbook tells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import lineage

DAY = 1_650_000_000_000_000  # microseconds since 1970: 2022-04-15
SECOND = 1_000_000
EVENT_COLUMNS = ["run", "event", "incident", "role", "kind", "time", "step", "before", "unit", "lost_steps", "evidence"]
NO_EVENTS = pd.DataFrame(columns=EVENT_COLUMNS)


def telling(
    source: str,
    steps: Sequence[int],
    *,
    tag: str = "lm loss",
    segment: int = 0,
    begin: float | None = 0.0,
    values: Sequence[float] | None = None,
    seconds: float = 1.0,
) -> pd.DataFrame:
    """One row a step, ``seconds`` apart from ``begin`` on; without a clock when ``begin`` is None."""
    steps = list(steps)
    if begin is None:
        time = pd.Series([pd.NaT] * len(steps), dtype="datetime64[us, UTC]")
    else:
        micros = [DAY + int((begin + seconds * index) * SECOND) for index in range(len(steps))]
        time = pd.Series(pd.to_datetime(np.array(micros, dtype="datetime64[us]")).tz_localize("UTC").as_unit("us"))
    if values is None:
        values = [5.0 - 0.001 * step for step in steps]
    return pd.DataFrame(
        {
            "run": "r",
            "source": source,
            "segment": segment,
            "tag": tag,
            "step": np.asarray(steps, dtype=np.int64),
            "wall_time": time,
            "value": np.asarray(values, dtype=np.float64),
        }
    )


def together(*parts: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True)


def segmented(source: str, steps: Sequence[int], **options: object) -> pd.DataFrame:
    """One source whose tag's steps may go back; segments numbered as parsers number them."""
    frame = telling(source, steps, **options)  # type: ignore[arg-type]
    step = frame["step"].to_numpy()
    frame["segment"] = np.concatenate(([0], np.cumsum(step[1:] < step[:-1])))
    return frame


def event(kind: str, **fields: object) -> dict[str, object]:
    role = {"rollback": "intervention", "loss_spike": "symptom", "node_failure": "cause"}.get(kind, "lifecycle")
    unit = "step" if "before" in fields else None
    return {"run": "r", "event": f"r/{kind}", "kind": kind, "role": role, "unit": unit, "evidence": "stated"} | fields


def logbook(*events: dict[str, object]) -> pd.DataFrame:
    frame = pd.DataFrame(list(events), columns=EVENT_COLUMNS)
    return frame.assign(
        time=pd.to_datetime(frame["time"], utc=True, format="ISO8601"), incident=frame["incident"].astype(object)
    )


def table(frame: pd.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    chosen = frame[list(columns)].astype(object).where(frame[list(columns)].notna(), None)
    return [tuple(row) for row in chosen.itertuples(index=False)]


STEPS = ("parent", "start_step", "end_step", "kept_to", "lost_steps")


# --- several files ------------------------------------------------------------------------------------------------


def test_a_resume_that_goes_back_leaves_the_overlap_to_the_first_attempt() -> None:
    scalars = together(telling("a", range(100)), telling("b", range(60, 150), begin=500))
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 99, 59, 40), (0, 59, 149, 149, 0)]
    assert lineage.assign(scalars, attempts)["attempt"].tolist() == [0] * 100 + [1] * 90
    assert lineage.surviving(scalars, attempts)["step"].tolist() == list(range(150)), "150 rows, as TensorBoard shows"


def test_a_resume_without_overlap_loses_nothing_and_a_missing_file_is_no_loss_either() -> None:
    scalars = together(
        telling("a", range(10_000, 2_520_000, 10_000), seconds=50),
        telling("b", range(2_520_000, 3_010_000, 10_000), begin=50_000, seconds=50),
        telling("c", range(7_130_000, 7_860_000, 10_000), begin=500_000, seconds=50),
    )
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [
        (None, 0, 2_510_000, 2_510_000, 0),
        (0, 2_510_000, 3_000_000, 3_000_000, 0),
        (1, 7_120_000, 7_850_000, 7_850_000, 0),
    ]
    assert len(lineage.surviving(scalars, attempts)) == len(scalars)


def test_file_order_is_not_time_order() -> None:
    """GOTCHAS 4."""
    scalars = together(telling("a", range(60, 150), begin=500), telling("b", range(100)))
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [(None, 0, 99, 59, 40), (0, 59, 149, 149, 0)]


def test_two_writers_in_turn_are_one_attempt() -> None:
    """GOTCHAS 4: one file has steps 0..99 and 200..299, the other 100..199, written between them."""
    first = together(telling("a", range(100)), telling("a", range(200, 300), begin=200))
    scalars = together(first, telling("b", range(100, 200), begin=100))
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 299, 299, 0)]
    assert set(lineage.assign(scalars, attempts)["attempt"]) == {0}


def test_a_file_written_before_and_after_another_went_back_holds_two_attempts() -> None:
    first = together(telling("a", range(1, 101)), telling("a", range(101, 201), begin=900))
    scalars = together(first, telling("b", range(61, 161), begin=300))
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 160, 100, 60), (1, 100, 200, 200, 0)]
    survivors = lineage.surviving(scalars, attempts)
    assert survivors.sort_values("step")["step"].tolist() == list(range(1, 201))


def test_a_log_and_an_event_file_of_one_stretch_are_one_attempt() -> None:
    """The log prints fewer digits, logs less often, has no clock, and knows the loss by another name."""
    values = [2.5 + 0.37 * np.sin(step) for step in range(1, 301)]
    events = telling("tb", range(1, 301), tag="lm-loss-training/lm loss", values=[float(np.float32(v)) for v in values])
    log = telling("log", range(10, 301, 10), begin=None, values=[round(v, 6) for v in values[9::10]])
    scalars = together(events, log)
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 300, 300, 0)]
    assert set(lineage.assign(scalars, attempts)["attempt"]) == {0}


def test_logs_without_a_clock_that_differ_at_the_same_steps_are_two_attempts() -> None:
    scalars = together(
        telling("run2.log", range(51, 150), begin=None, values=[2.0 - 0.003 * s for s in range(51, 150)]),
        telling("run10.log", range(140, 200), begin=None, values=[1.0 - 0.003 * s for s in range(140, 200)]),
        telling("run1.log", range(1, 101), begin=None),
    )
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 100, 50, 50), (0, 50, 149, 139, 10), (1, 139, 199, 199, 0)]


def test_a_history_that_spans_a_restart_is_divided_among_the_attempts() -> None:
    """A trainer's final state tells what survived; its log tells both attempts."""
    log = segmented("log", [*range(1, 101), *range(61, 201)], begin=None)
    rng = np.random.default_rng(0)
    log["value"] = rng.normal(2, 0.5, len(log))
    state = telling("state", range(1, 201), begin=None, values=[*log["value"][:60], *log["value"][100:]])
    scalars = together(state, log)
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 200, 200, 0)]
    assigned = lineage.assign(scalars, attempts)
    assert assigned[assigned["source"] == "state"]["attempt"].tolist() == [0] * 60 + [1] * 140


def test_training_and_validation_written_to_files_of_their_own_are_one_attempt() -> None:
    scalars = together(
        telling("train", range(1, 101), tag="loss"), telling("valid", [50, 100], tag="val_loss", begin=50, seconds=49)
    )
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [(None, 0, 100, 100, 0)]


# --- one file -----------------------------------------------------------------------------------------------------


def test_steps_that_go_back_in_one_file_begin_an_attempt() -> None:
    scalars = segmented("log", [*range(10, 1010, 10), *range(510, 2010, 10)])
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 1000, 500, 500), (0, 500, 2000, 2000, 0)]
    assert attempts["end_time"][0] < attempts["start_time"][1]


def test_a_second_step_back_below_the_first_loses_the_middle_attempt_whole() -> None:
    scalars = segmented("log", [*range(1, 101), *range(61, 151), *range(41, 200)])
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [
        (None, 0, 100, 40, 60),
        (0, 60, 150, 60, 90),
        (0, 40, 199, 199, 0),
    ]


def test_a_return_to_an_abandoned_branch_is_a_tree() -> None:
    scalars = segmented("log", [*range(1, 101), *range(61, 181), *range(41, 51)])
    back = segmented("later", list(range(141, 200)), begin=9000)
    attempts = lineage.attempts(together(scalars, back), NO_EVENTS)
    assert table(attempts, "parent", "start_step", "kept_to") == [
        (None, 0, 60),
        (0, 60, 140),
        (0, 40, 40),
        (1, 140, 199),
    ]


def test_the_same_step_printed_by_seven_ranks_is_no_restart() -> None:
    """GOTCHAS 25."""
    scalars = segmented("log", [step for step in range(1, 51) for _ in range(7)])
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [(None, 0, 50, 50, 0)]


def test_ranks_that_lag_behind_each_other_are_no_restarts() -> None:
    steps = []
    for step in range(1, 60):
        steps += [step, step, step + 1, step]  # one rank is ahead, another behind
    scalars = segmented("log", steps)
    assert scalars["segment"].max() > 10
    assert table(lineage.attempts(scalars, NO_EVENTS), "start_step", "end_step", "lost_steps") == [(0, 60, 0)]


def test_ranks_that_all_go_back_did_restart() -> None:
    steps = [step for stretch in (range(1, 101), range(61, 151)) for step in stretch for _ in range(4)]
    scalars = segmented("log", steps)
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 150, 150, 0)]


def test_steps_counted_anew_in_every_epoch_are_no_restarts() -> None:
    """GOTCHAS 25: the loss goes on falling from one epoch to the next."""
    losses = np.linspace(6, 2, 400)
    scalars = segmented("log", [*range(100)] * 4, values=losses)
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 99, 99, 0)]
    assert len(lineage.surviving(scalars, attempts)) == 400, "nothing is purged"


def test_two_epochs_are_known_by_their_number() -> None:
    steps = [*range(100)] * 2
    scalars = together(segmented("log", steps), segmented("log", steps, tag="epoch", values=[0.0] * 100 + [1.0] * 100))
    assert table(lineage.attempts(scalars, NO_EVENTS), "start_step", "end_step") == [(0, 99)]


def test_a_run_begun_anew_three_times_is_three_attempts() -> None:
    scalars = segmented("log", [*range(100)] * 3, values=[*np.linspace(6, 2, 100)] * 3)
    assert len(lineage.attempts(scalars, NO_EVENTS)) == 3


def test_a_rare_tag_that_steps_back_later_opens_no_second_attempt() -> None:
    loss = segmented("log", [*range(1, 101), *range(61, 201)])
    rare = telling("log", [50, 100], tag="val_loss")
    again = telling("log", [80, 150], tag="val_loss", segment=1)
    attempts = lineage.attempts(together(loss, rare, again), NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 200, 200, 0)]


def test_one_odd_tag_that_keeps_stepping_back_is_no_restart() -> None:
    """Its segments are the parser's; every other tag goes on through them."""
    parts = []
    for segment in range(5):
        begin = segment * 20.0
        parts.append(telling("log", range(segment * 20, segment * 20 + 20), segment=segment, begin=begin))
        parts.append(telling("log", range(3), tag="progress of the epoch", segment=segment, begin=begin))
    assert table(lineage.attempts(together(*parts), NO_EVENTS), "start_step", "end_step") == [(0, 99)]


def test_a_tag_against_samples_neither_makes_nor_hides_an_attempt() -> None:
    """GOTCHAS 7: at step 100 it stands at 204,800."""

    def with_samples(steps: range, segment: int, begin: float) -> pd.DataFrame:
        samples = telling("log", [2048 * s for s in steps], tag="lm loss vs samples", segment=segment, begin=begin)
        return together(telling("log", steps, segment=segment, begin=begin), samples)

    scalars = together(with_samples(range(1, 101), 0, 0), with_samples(range(61, 151), 1, 400))
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 150, 150, 0)]
    survivors = lineage.surviving(scalars, attempts)
    assert survivors.groupby("tag")["step"].apply(sorted).to_dict() == {
        "lm loss": list(range(1, 151)),
        "lm loss vs samples": [2048 * step for step in range(1, 151)],
    }


@pytest.mark.parametrize("clock", ["1970", "backwards"])
def test_a_clock_that_is_wrong_orders_nothing_within_a_file(clock: str) -> None:
    """GOTCHAS 8."""
    scalars = segmented("log", [*range(1, 101), *range(61, 151)])
    if clock == "1970":
        scalars["wall_time"] = pd.Timestamp(0, tz="UTC").as_unit("us")
    else:
        scalars["wall_time"] = scalars["wall_time"].iloc[::-1].to_numpy()
    assert table(lineage.attempts(scalars, NO_EVENTS), *STEPS) == [(None, 0, 100, 60, 40), (0, 60, 150, 150, 0)]


def test_steps_at_the_ends_of_int64_and_below_zero_are_steps() -> None:
    big = 2**63 - 1
    scalars = segmented("log", [-5, -4, big - 1, big, -(2**63), 7])
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert attempts["end_step"].tolist() == [big, 7]
    assert len(lineage.assign(scalars, attempts)) == 6


# --- what a logbook tells -----------------------------------------------------------------------------------------


def test_a_run_without_scalars_has_the_attempts_of_its_logbook() -> None:
    events = logbook(
        event("start", time="2022-05-06T04:00"),
        event("node_failure", incident="r/1", time="2022-05-07T20:14", step=4150),
        event("restart", incident="r/1", time="2022-05-07T20:14", step=4000),
        event("loss_spike", incident="r/2", time="2022-05-20T09:00", step=9100),
        event("rollback", incident="r/2", time="2022-05-20T09:00", step=8500, before=9120),
        event("restart", incident="r/2", time="2022-05-20T09:00", step=8500),
    )
    attempts = lineage.attempts(pd.DataFrame(columns=list(telling("a", [0]).columns)), events)
    assert table(attempts, *STEPS) == [
        (None, 0, 4150, 4000, 150),
        (0, 4000, 9120, 8500, 620),
        (1, 8500, None, None, None),
    ]
    assert table(attempts, "end_cause") == [("node_failure",), ("loss_spike",), (None,)]
    expected = pd.to_datetime(["2022-05-06 04:00", "2022-05-07 20:14", "2022-05-20 09:00"], utc=True)
    assert attempts["start_time"].tolist() == expected.tolist()


def test_a_restart_that_left_no_trace_divides_the_scalars() -> None:
    """An event file after a purge shows one smooth curve."""
    scalars = telling("tb", range(1, 201), begin=None)
    events = logbook(event("restart", incident="r/1", step=120, before=155))
    attempts = lineage.attempts(scalars, events)
    assert table(attempts, *STEPS) == [(None, 0, 155, 120, 35), (0, 120, 200, 200, 0)]
    assert lineage.assign(scalars, attempts)["attempt"].tolist() == [0] * 120 + [1] * 80
    assert len(lineage.surviving(scalars, attempts)) == 200


def test_the_logbook_gives_the_exact_checkpoint_where_reports_are_rare() -> None:
    scalars = segmented("log", [*range(100, 2100, 100), *range(1600, 3000, 100)], begin=None)
    told = logbook(event("rollback", incident="r/1", step=1550, before=2040))
    assert table(lineage.attempts(scalars, NO_EVENTS), "start_step", "lost_steps") == [(0, 500), (1500, 0)]
    assert table(lineage.attempts(scalars, told), *STEPS) == [(None, 0, 2040, 1550, 490), (0, 1550, 2900, 2900, 0)]


def test_an_excerpt_of_a_log_belongs_to_the_attempt_that_the_logbook_tells() -> None:
    scalars = telling("excerpt", range(31_214, 31_252), begin=None)
    events = logbook(
        event("start", time="2022-03-11"),
        event("restart", incident="r/1", time="2022-03-20", step=3000),
        event("restart", incident="r/2", time="2022-04-20", step=31_000),
        event("restart", incident="r/3", time="2022-05-20", step=40_000),
    )
    attempts = lineage.attempts(scalars, events)
    assert table(attempts, "start_step", "end_step") == [(0, None), (3000, None), (31_000, 31_251), (40_000, None)]
    assert set(lineage.assign(scalars, attempts)["attempt"]) == {2}


def test_a_restart_told_by_seven_ranks_is_one() -> None:
    rank = [event("restart", step=500, time=f"2022-03-11T10:00:0{second}") for second in range(7)]
    events = logbook(event("start", time="2022-03-10"), *rank)
    assert len(lineage.attempts(telling("a", [0])[:0], events)) == 2


def test_a_step_that_the_attempt_cannot_have_reached_is_not_its_end() -> None:
    """Logbooks without times come in the order of their headings."""
    events = logbook(
        event("start"),
        event("restart", incident="r/1", step=16_800, before=17_068),
        event("rollback", incident="r/2", step=3000, before=5000),
    )
    attempts = lineage.attempts(telling("a", [0])[:0], events)
    assert table(attempts, "start_step", "end_step", "lost_steps") == [
        (0, 17_068, 14_068),
        (16_800, None, None),
        (3000, None, None),
    ]


def test_what_replay_derived_itself_is_no_source() -> None:
    events = logbook(event("restart", step=50) | {"evidence": "derived"})
    assert len(lineage.attempts(telling("a", range(100)), events)) == 1


def test_nothing_gives_an_empty_table_with_its_columns() -> None:
    attempts = lineage.attempts(telling("a", [0])[:0], NO_EVENTS)
    assert {name: str(dtype) for name, dtype in attempts.dtypes.items()} == lineage.COLUMNS | {lineage.PIECES: "object"}
    assert len(lineage.assign(telling("a", [0])[:0], attempts)) == 0
    assert lineage.assign(telling("a", [0, 1]), attempts)["attempt"].isna().all(), "rows of no attempt are kept"


# --- properties ---------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn, least_back: int = 0) -> list[tuple[int, int]]:
    """(checkpoint, steps executed) of several attempts; each begins at a step that the one before had reached."""
    result = [(0, draw(st.integers(5, 40)))]
    for _ in range(draw(st.integers(0, 5))):
        checkpoint, length = result[-1]
        result.append((draw(st.integers(0, checkpoint + length - least_back)), draw(st.integers(3, 40))))
    return result


def values_of(number: int, steps: range) -> list[float]:
    return [5 - 0.1 * step + 0.01 * np.sin(7 * number + step) for step in steps]


def purged(history: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(attempt, step) that TensorBoard would still show."""
    shown: list[tuple[int, int]] = []
    for number, (checkpoint, length) in enumerate(history):
        shown = [(attempt, step) for attempt, step in shown if step < checkpoint + 1]
        shown += [(number, step) for step in range(checkpoint + 1, checkpoint + length + 1)]
    return shown


def check(scalars: pd.DataFrame, history: list[tuple[int, int]]) -> None:
    attempts = lineage.attempts(scalars, NO_EVENTS)
    assert table(attempts, "start_step", "end_step") == [(start, start + length) for start, length in history]
    assigned = lineage.assign(scalars, attempts)
    assert len(assigned) == len(scalars)
    assert assigned["attempt"].notna().all()
    survivors = lineage.surviving(scalars, attempts)
    assert sorted(zip(survivors["attempt"], survivors["step"], strict=True)) == sorted(purged(history))
    assert (attempts["lost_steps"] >= 0).all()
    executed = sum(length for _, length in history)
    assert executed - attempts["lost_steps"].sum() == attempts["end_step"].iloc[-1]


def test_two_ranks_of_which_one_lags_a_step_are_no_restarts() -> None:
    steps = [1]
    for step in range(2, 60):
        steps += [step, step - 1]
    scalars = segmented("log", steps)
    assert table(lineage.attempts(scalars, NO_EVENTS), "start_step", "end_step", "lost_steps") == [(0, 59, 0)]


@given(histories(), st.permutations(range(6)))
@settings(max_examples=60, deadline=None)
def test_a_file_an_attempt_survives_as_tensorboard_shows_it(history: list[tuple[int, int]], names: list[int]) -> None:
    parts = []
    for number, (checkpoint, length) in enumerate(history):
        steps = range(checkpoint + 1, checkpoint + length + 1)
        parts.append(telling(str(names[number]), steps, begin=1000.0 * number, values=values_of(number, steps)))
    check(together(*parts), history)


# One step back and one forward is a duplicate to a parser, and a resume at the last step no step back at all.
@given(histories(least_back=2), st.booleans())
@settings(max_examples=60, deadline=None)
def test_one_file_of_all_attempts_survives_as_tensorboard_shows_it(history: list[tuple[int, int]], clock: bool) -> None:
    ranges = [range(start + 1, start + length + 1) for start, length in history]
    values = [value for number, steps in enumerate(ranges) for value in values_of(number, steps)]
    steps = [step for part in ranges for step in part]
    check(segmented("log", steps, values=values, begin=0.0 if clock else None), history)


@given(histories(least_back=2))
@settings(max_examples=30, deadline=None)
def test_some_tags_and_steps_of_a_run_are_assigned_as_in_the_whole(history: list[tuple[int, int]]) -> None:
    steps = [step for start, length in history for step in range(start + 1, start + length + 1)]
    scalars = together(segmented("log", steps), segmented("log", steps, tag="grad norm"))
    attempts = lineage.attempts(scalars, NO_EVENTS)
    whole, everything = lineage.assign(scalars, attempts), lineage.surviving(scalars, attempts)
    part = (scalars["tag"] == "grad norm") & scalars["step"].between(3, 20)
    pd.testing.assert_frame_equal(lineage.assign(scalars[part], attempts), whole[part])
    expected = everything[(everything["tag"] == "grad norm") & everything["step"].between(3, 20)]
    pd.testing.assert_frame_equal(lineage.surviving(scalars[part], attempts), expected)
