"""fairseq and metaseq."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import ReadText, of_kind, read_path, values

from replay_parsers.trainers.fairseq import PARSER


def inner(update: int, loss: str = "2.5", second: int = 0, **more: str) -> str:
    fields = {
        "epoch": "1",
        "loss": loss,
        "ppl": "5.6",
        "num_updates": str(update),
        "lr": "6e-05",
        "gnorm": "1.2",
        **more,
    }
    body = ", ".join(f'"{key}": "{value}"' for key, value in fields.items())
    return f"2021-11-06 18:05:{second:02d} | INFO | train_inner | {{{body}}}\n"


def note(text: str, second: int = 30) -> str:
    return f"2021-11-06 18:05:{second:02d} | INFO | metaseq.trainer | {text}\n"


OVERFLOW = "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {}"


class TestGotcha12JsonAfterAPrefix:
    def test_numbers_are_strings(self, read_text: ReadText) -> None:
        read = read_text(PARSER, inner(1, "10.5", loss_scale="4") + inner(2, "nan", loss_scale="inf"))
        assert values(read, "loss")[1] == 10.5
        assert values(read, "loss_scale") == {1: 4.0, 2: float("inf")}
        assert [event.step for event in of_kind(read, "nan_loss")] == [2]
        assert "num_updates" not in read.scalars.tags

    def test_the_time_in_front_is_the_wall_time(self, read_text: ReadText) -> None:
        read = read_text(PARSER, inner(1, second=7))
        assert set(read.scalars.wall_time.tolist()) == {1_636_221_907_000_000}

    def test_validation_and_epoch_ends_have_names_of_their_own(self, read_text: ReadText) -> None:
        valid = '2021-03-08 18:12:45 | INFO | valid | {"epoch": 1, "valid_loss": "16.6", "valid_num_updates": "10"}\n'
        train = '2021-03-08 18:12:45 | INFO | train | {"epoch": 1, "train_loss": "18.1", "train_num_updates": "10"}\n'
        read = read_text(PARSER, inner(10) + valid + train)
        assert values(read, "valid_loss") == {10: 16.6}
        assert values(read, "train_loss") == {10: 18.1}
        assert values(read, "loss") == {10: 2.5}

    def test_an_overflow_is_no_update_and_several_may_come_before_one(self, read_text: ReadText) -> None:
        read = read_text(
            PARSER, inner(1) + inner(2) + note(OVERFLOW.format(2.0)) + note(OVERFLOW.format(1.0)) + inner(3)
        )
        events = of_kind(read, "overflow_skip")
        assert [(event.step, event.after) for event in events] == [(3, 2.0), (3, 1.0)]
        assert len({event.event for event in events}) == 2
        assert events[0].time is not None

    def test_the_minimum_loss_scale_is_a_floor(self, read_text: ReadText) -> None:
        said = "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."
        (event,) = of_kind(read_text(PARSER, inner(1) + inner(2) + said + "\n"), "loss_scale_floor")
        assert (event.step, event.after) == (2, 0.0001)

    def test_metaseq_lowers_the_learning_rate_by_itself(self, read_text: ReadText) -> None:
        read = read_text(PARSER, inner(1) + inner(2) + note("Scaling LR by 0.43 to 0.000026") + inner(3))
        (event,) = of_kind(read, "lr_change")
        assert (event.step, event.field, event.after, event.detail) == (3, "learning_rate", 2.6e-05, {"factor": "0.43"})

    def test_checkpoints_and_the_end(self, read_text: ReadText) -> None:
        saved = note(
            "Saved checkpoint /c/checkpoint_1_500.pt (epoch 1 @ 500 updates, score None) (writing took 1.2 seconds)"
        )
        loaded = note("Loaded checkpoint /c/checkpoint_1_500.pt (epoch 1 @ 500 updates)")
        read = read_text(PARSER, inner(500) + saved + loaded + inner(501) + note("done training in 509.9 seconds"))
        assert [(event.kind, event.step) for event in read.events] == [
            ("checkpoint_save", 500),
            ("checkpoint_load", 500),
            ("restart", 500),
            ("end", 501),
        ]


class TestSimpleForm:
    def test_steps_and_epoch_ends(self, read_text: ReadText) -> None:
        text = (
            "2023-06-13 17:31:08 | INFO | train_inner | epoch 143:     85 / 282 loss=3.147, nll_loss=1.236,"
            " num_updates=401, lr=0.000157917, gnorm=0.489, clip=0, loss_scale=32768, train_wall=48, wall=0\n"
            "2023-06-13 17:31:54 | INFO | valid | epoch 143 | valid on 'valid' subset | loss 2.001 | num_updates 402\n"
            "2023-06-13 17:31:55 | INFO | train | epoch 143 | loss 3.1 | num_updates 402 | lr 0.00015\n"
        )
        read = read_text(PARSER, text)
        assert values(read, "loss") == {401: 3.147}
        assert values(read, "loss_scale") == {401: 32768}
        assert values(read, "valid_loss") == {402: 2.001}
        assert values(read, "train_loss") == {402: 3.1}

    def test_the_oldest_form_without_times(self, read_text: ReadText) -> None:
        text = "| epoch 001:    100 / 1050 loss=10.5, ppl=1448.2, wps=3283, num_updates=100, lr=1.2e-05, gnorm=2.1\n"
        assert values(read_text(PARSER, text), "loss") == {100: 10.5}


def test_the_real_log(shared: Path) -> None:
    read = read_path(PARSER, shared / "real" / "trainers" / "fairseq" / "fsdp_8gpu.log")
    assert list(values(read, "loss")) == list(range(1, 11))
    assert (values(read, "loss")[1], values(read, "gnorm")[3]) == (16.408, 119.682)
    assert values(read, "valid_loss") == {10: 16.624}
    assert [(event.kind, event.step, event.after) for event in read.events] == [
        ("overflow_skip", 3, 2.0),
        ("overflow_skip", 3, 1.0),
        ("end", 10, None),
    ]


@pytest.mark.parametrize(
    "broken", ['{"loss": "2.5", "num_updates"', '{"num_updates": {}}', '["num_updates"]', "num_updates"]
)
def test_a_broken_record_is_counted_and_no_more(read_text: ReadText, broken: str) -> None:
    read = read_text(PARSER, inner(1) + f"2021-03-08 18:05:00 | INFO | train_inner | {broken}\n" + inner(2))
    assert values(read, "loss") == {1: 2.5, 2: 2.5}
    assert read.coverage.not_understood == 1
