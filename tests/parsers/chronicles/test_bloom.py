"""BigScience's style of chronicle, on one of our own: `fixtures/harbour.md`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from replay_parsers.chronicles import bloom
from replay_parsers.files import sample
from replay_parsers.records import NO_TIME, Event, EventKind, Records

K = EventKind
BOOK = Path(__file__).parent / "fixtures" / "harbour.md"


@pytest.fixture(scope="module")
def records() -> Records:
    return bloom.parse(BOOK.read_bytes(), "harbour.md", "harbour")


def of(records: Records, incident: str, kind: K) -> list[Event]:
    return [event for event in records.events if event.incident == f"harbour/{incident}" and event.kind is kind]


def test_it_is_recognised_by_its_content() -> None:
    assert bloom.recognise(sample(BOOK)) > 0.4


def test_experiments_troubles_and_dates_are_incidents_and_plans_are_none(records: Records) -> None:
    assert list(dict.fromkeys(event.incident for event in records.events)) == [
        "harbour/experiment-1",
        "harbour/experiment-2",
        "harbour/experiment-3",
        "harbour/a-second-loss-spike",
        "harbour/2022-03-21",
    ]


def test_log_lines_become_scalars_with_every_field(records: Records) -> None:
    scalars = records.scalars
    loss = scalars.tags.index("lm loss")
    rows = scalars.tag == loss
    assert scalars.step[rows].tolist() == [900, 910]
    assert scalars.value[rows].tolist() == [4.1, 9.05]
    assert (scalars.wall_time == NO_TIME).all()
    assert np.count_nonzero(scalars.tag == scalars.tags.index("grad norm")) == 3


def test_log_lines_say_where_and_how_large_a_spike_was(records: Records) -> None:
    (spike,) = of(records, "experiment-1", K.LOSS_SPIKE)
    assert (spike.step, spike.before, spike.after, spike.field) == (910, 4.1, 9.05, "loss")
    assert spike.evidence == "logged"


def test_a_record_that_lacks_its_loss_is_a_nan_loss(records: Records) -> None:
    (lost,) = of(records, "experiment-1", K.NAN_LOSS)
    assert (lost.step, lost.evidence) == (920, "logged")


def test_a_rollback_that_is_told_in_words_and_in_code_is_one(records: Records) -> None:
    (back,) = of(records, "experiment-1", K.ROLLBACK)
    assert back.step == 800


def test_a_restart_that_only_repeats_the_rollback_before_it_is_none(records: Records) -> None:
    assert not of(records, "experiment-2", K.RESTART)
    assert not of(records, "experiment-2", K.ROLLBACK)


def test_the_beginning_is_a_start_and_no_restart(records: Records) -> None:
    (start,) = of(records, "experiment-1", K.START)
    assert start.step == 0
    assert not of(records, "experiment-1", K.RESTART_FROM_SCRATCH)


def test_edits_of_scripts_have_both_values(records: Records) -> None:
    (lowered,) = of(records, "experiment-2", K.LR_CHANGE)
    assert (lowered.before, lowered.after, lowered.detail["flag"]) == (6e-4, 3e-4, "--lr 3e-4")
    (added,) = of(records, "experiment-2", K.ARCHITECTURE_CHANGE)
    assert added.detail["flag"] == "--embed-layernorm"


def test_options_shown_again_with_the_same_value_are_no_change(records: Records) -> None:
    assert not of(records, "experiment-3", K.LR_CHANGE)
    assert not of(records, "experiment-3", K.OPTIMIZER_BETAS_CHANGE)
    (clip,) = of(records, "experiment-3", K.GRAD_CLIP_CHANGE)
    assert clip.after == 0.5


def test_quotations_and_conditions_are_no_events(records: Records) -> None:
    betas = of(records, "experiment-2", K.OPTIMIZER_BETAS_CHANGE)
    assert [event.after for event in betas] == [0.95]
    assert not of(records, "experiment-2", K.RESTART_FROM_SCRATCH)


def test_skipped_ranges_and_outcomes(records: Records) -> None:
    (skip,) = of(records, "experiment-3", K.SKIP_BATCHES)
    assert (skip.step, skip.step_end) == (1251, 1300)
    assert of(records, "experiment-3", K.UNAFFECTED)
    assert of(records, "experiment-2", K.ABANDONED)
    assert of(records, "a-second-loss-spike", K.RECOVERED_BY_ITSELF)


def test_hours_lost_and_settings_within_prose(records: Records) -> None:
    (lost,) = [event for event in records.events if event.lost_hours is not None]
    assert (lost.incident, lost.lost_hours) == ("harbour/2022-03-21", 7.5)
    (saved,) = of(records, "2022-03-21", K.CHECKPOINT_INTERVAL_CHANGE)
    assert (saved.after, saved.unit) == (100, "step")


def test_locators_are_headings(records: Records) -> None:
    headings = {f"§ {line.lstrip('# ')}" for line in BOOK.read_text().splitlines() if line.startswith("#")}
    assert {event.locator for event in records.events} <= headings


def test_code_that_is_neither_is_counted(records: Records) -> None:
    assert records.coverage.other["log line"] == 3
    assert records.coverage.other["line of other code"] == 1
