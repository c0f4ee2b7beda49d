"""Megatron logs as they were published: the facts that are known of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_reading import of_kind, read_path, values
from megatron_records import LOSS

from replay_parsers.files import sample
from replay_parsers.records import ProblemKind
from replay_parsers.trainers.megatron import PARSER, recognise, records_in


class TestRealFiles:
    """The facts in the list of real files, whose own words stay where they are."""

    @pytest.fixture
    def folder(self, shared: Path) -> Path:
        return shared / "real" / "trainers" / "megatron-deepspeed"

    def test_tr8_8738(self, folder: Path) -> None:
        read = read_path(PARSER, folder / "tr8_8738.log")
        loss = values(read, LOSS)
        assert (loss[8738], loss[8741], loss[8743]) == (3.317482, 7.267764, 7.596509)
        assert values(read, "grad norm")[8741] == 3273877.676
        assert list(values(read, "loss scale").items())[-2:] == [(9026, 16384.0), (9027, 8192.0)]
        assert [event.step for event in of_kind(read, "nan_loss")] == [9027]
        assert 9027 not in loss

    def test_tr8b_17060(self, folder: Path) -> None:
        read = read_path(PARSER, folder / "tr8b_17060.log")
        loss = values(read, LOSS)
        assert (loss[17061], loss[17062]) == (2.667121, 4.374269)
        scales = values(read, "loss scale")
        assert [scales[step] for step in range(17062, 17069)] == [1048576, 524288, 262144, 131072, 131072, 65536, 32768]
        overflows = of_kind(read, "overflow_skip")
        assert [event.step for event in overflows] == [17062, 17063, 17064, 17065, 17067, 17068]
        # The first overflow only used up hysteresis.
        assert [event.before == event.after for event in overflows] == [True, False, False, False, False, False]
        norms = values(read, "grad norm")
        assert {norms[step] for step in range(17061, 17066)} == {464441.887}
        assert [finding.locator for finding in read.findings] == ["line 4", "line 13"]

    def test_tr8_6900(self, folder: Path) -> None:
        loss = values(read_path(PARSER, folder / "tr8_6900.log"), LOSS)
        assert (loss[6900], loss[6940], len(loss)) == (6.365808, 10.23865, 5)

    def test_tr11_31214(self, folder: Path) -> None:
        read = read_path(PARSER, folder / "tr11_31214.log")
        loss = values(read, LOSS)
        assert (loss[31214], loss[31219], loss[31250]) == (2.198845, 5.098124, 2.215699)
        assert values(read, "grad norm")[31219] == 960.351
        assert "loss scale" not in read.scalars.tags
        assert read.coverage.examples == ("line 10: [...]",)

    def test_tr11_42780_wrapped(self, folder: Path) -> None:
        read = read_path(PARSER, folder / "tr11_42780_wrapped.log")
        assert list(values(read, LOSS)) == [42780, 42781, 42782, 42783, 42784]
        assert values(read, LOSS)[42784] == 2.127643
        assert list(values(read, "TFLOPs")) == [42780, 42781, 42782, 42783]
        assert [problem.kind for problem in read.problems] == [ProblemKind.TRUNCATED]

    def test_each_is_detected_by_its_content(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            assert recognise(sample(path)) > 0.9, path

    def test_every_line_pasted_into_the_bloom_chronicles_is_found(self, shared: Path) -> None:
        counts = {}
        for path in sorted((shared / "upstream" / "bloom").glob("*.md")):
            found = records_in(path.read_text(encoding="utf-8"))
            headers = {
                number
                for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
                if "| consumed samples:" in line
            }
            assert headers <= {one.line for one in found}, path.name
            counts[path.name] = len(headers)
        assert sum(counts.values()) == 72
