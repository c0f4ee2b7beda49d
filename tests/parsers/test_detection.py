"""Finding the parser of a file: by its content, and without paying for those that it cannot be."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from replay_parsers import detection
from replay_parsers.parser import Parser, Sample
from replay_parsers.records import Records, Run


def parser(name: str, confidence: float, asked: list[str], surest: float = 1.0) -> Parser:
    def recognise(_: Sample) -> float:
        asked.append(name)
        return confidence

    return Parser(name=name, recognise=recognise, read=lambda _: iter(()), surest=surest)


def sample_of(content: bytes) -> Sample:
    return Sample(path=Path("x"), head=content, whole=True)


def test_nobody_is_asked_after_one_that_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    everyone = [parser("doubtful", 0.5, asked), parser("certain", 1.0, asked), parser("late", 1.0, asked)]
    monkeypatch.setattr(detection, "all_parsers", lambda: iter(everyone))
    assert detection.detect(sample_of(b"x")).parser.name == "certain"
    assert asked == ["doubtful", "certain"]


def test_one_that_cannot_be_surer_than_another_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    everyone = [parser("a", 0.6, asked), parser("slow", 0.6, asked, surest=0.6), parser("b", 0.6, asked)]
    monkeypatch.setattr(detection, "all_parsers", lambda: iter(everyone))
    found = detection.detect(sample_of(b"x"))
    assert found.parser.name == "a", "of equally sure ones the first"
    assert found.tried == {"a": 0.6, "b": 0.6}


def test_what_is_not_recognised_says_how_many_were_tried_and_which_were_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everyone = [parser("no", 0.0, []), parser("hardly", 0.1, []), parser("perhaps", 0.25, [])]
    monkeypatch.setattr(detection, "all_parsers", lambda: iter(everyone))
    with pytest.raises(detection.UnknownFormatError) as error:
        detection.detect(sample_of(b"x"))
    assert "x: no parser recognises it (3 formats tried, nearest: perhaps 0.25, hardly 0.10): " in str(error.value)
    assert error.value.tried == {"no": 0.0, "hardly": 0.1, "perhaps": 0.25}


@pytest.mark.parametrize("module", detection.PROSE)
def test_parsers_of_prose_are_loaded_late_and_are_themselves(module: str) -> None:
    own = import_module(module).PARSER
    (late,) = [one for one in detection.all_parsers() if one.name == own.name]
    assert (late.name, late.appends) == (own.name, own.appends)
    assert late.surest >= own.surest or late.surest == detection.SUREST_OF_ANY_LOGBOOK


def test_any_logbook_is_never_surer_than_it_says() -> None:
    own = import_module("replay_parsers.chronicles.general").PARSER
    book = "# Log\n\n## 2022-05-03 a\n\nspike\n\n## 2022-05-04 b\n\nrestart\n\n## 2022-05-05 c\n\nok\n"
    assert own.recognise(sample_of(book.encode())) <= detection.SUREST_OF_ANY_LOGBOOK


def test_a_log_without_headings_loads_no_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    record = " iteration {:8d}/ 100 | elapsed time per iteration (ms): 9.1 | lm loss: 2.0E+00 | loss scale: 1.0 |\n"
    path.write_text("".join(record.format(step) for step in range(9)))
    code = (
        "import sys; from replay_parsers import detect; from pathlib import Path\n"
        "print(detect(Path(sys.argv[1])).parser.name, 'replay_parsers.chronicles.book' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["megatron", "False"]


def test_what_every_piece_says_of_the_run_is_joined() -> None:
    pieces = [
        Records(
            source="s",
            format="f",
            start=n,
            end=n + 1,
            run=Run(run="r", sources=("s",), **said) if said is not None else None,
        )
        for n, said in enumerate(
            [
                {"title": "A", "metadata": {"layers": "2", "width": "8"}},
                None,
                {"hardware": "a laptop", "metadata": {"width": "64"}},
            ]
        )
    ]
    joined = detection.join(pieces).run
    assert joined is not None
    assert (joined.title, joined.hardware, joined.sources) == ("A", "a laptop", ("s",))
    assert joined.metadata == {"layers": "2", "width": "64"}


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("notes.txt", b"what is this?\n", "write the numbers as CSV or JSON lines with a column `step`"),
        ("notes.txt", b"what is this?\n", "or install a parser of its format (entry point replay_parsers)"),
        ("events.out.tfevents.1.host", b"\x18\0\0", "its 3 bytes are too few to tell; ingest it again when"),
        ("events.out.tfevents.1.host", b"\x18", "its 1 byte is too few to tell"),
        ("events.out.tfevents.1.host", bytes(40), "nothing but zero bytes, as a crash leaves a file"),
        ("train.log", bytes(200_000), "nothing but zero bytes"),
        ("model.bin", b"\x01\0\x02" * 50, "it is binary, and the only binary files that are read are TensorBoard's"),
        ("book.yaml", b"# ours\n---\n\n- run: {name: a}\n- incidents\n", "its top is a list, while a logbook in YAML"),
    ],
)
def test_of_what_is_not_recognised_it_is_told_what_can_be_done(
    tmp_path: Path, name: str, content: bytes, advice: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(detection.UnknownFormatError) as caught:
        detection.detect(path)
    assert str(caught.value).startswith(f"{path}: no parser recognises it (")
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)
