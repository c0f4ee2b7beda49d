"""The compiled decoder: checksums in two ways, one compilation, a cache that need not be writable."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
from event_file_writer import crc32c, masked, scalar_file
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import caching

from replay_parsers import cache_folder, machine_code
from replay_parsers.tensorboard import compilation, decoder
from replay_parsers.tensorboard import crc32c as checksums
from replay_parsers.tensorboard.compilation import Entry, compiled
from replay_parsers.tensorboard.entry_points import DECODER


def by_tables(checksum: int, begin: int, length: int) -> int:
    return checksums.extend_by_tables(checksum, begin, length)


def by_instruction(checksum: int, begin: int, length: int) -> int:
    return checksums.extend_by_instruction(checksum, begin, length)


BY_TABLES = Entry(by_tables, "int64(int64, int64, int64)")
BY_INSTRUCTION = Entry(by_instruction, "int64(int64, int64, int64)")

needs_instruction = pytest.mark.skipif(not checksums.has_instruction(), reason="no SSE4.2 checksum instruction here")


def extend(entry: Entry, data: bytes, checksum: int = 0) -> int:
    padded = np.frombuffer(data + bytes(8), np.uint8)
    return entry(checksum, int(padded.ctypes.data), len(data))


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
    ids=["nothing", "digits", "zeros", "ones", "counting"],
)
def test_the_published_check_values_of_crc32c(data: bytes, checksum: int) -> None:
    """RFC 3720, appendix B.4, and the "check" value of the CRC catalogue."""
    assert crc32c(data) == checksum
    assert extend(BY_TABLES, data) == checksum
    assert extend(decoder.extend_checksum, data) == checksum
    assert decoder.mask_checksum(checksum) == masked(checksum)


@settings(deadline=None)  # the first call compiles
@given(data=st.binary(max_size=100), cut=st.integers(0, 100))
def test_tables_and_whatever_is_in_use_agree_with_one_byte_at_a_time(data: bytes, cut: int) -> None:
    expected = crc32c(data)
    for entry in (BY_TABLES, decoder.extend_checksum):
        assert extend(entry, data) == expected
        assert extend(entry, data[cut:], extend(entry, data[:cut])) == expected


@needs_instruction
@settings(deadline=None)  # the first call compiles
@given(data=st.binary(max_size=100), cut=st.integers(0, 100))
def test_the_instruction_agrees_with_the_tables(data: bytes, cut: int) -> None:
    assert extend(BY_INSTRUCTION, data) == extend(BY_TABLES, data)
    assert extend(BY_INSTRUCTION, data[cut:], extend(BY_TABLES, data[:cut])) == extend(BY_TABLES, data)


def test_the_choice_follows_what_numba_compiles_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.SETTINGS, "CPU_NAME", "generic")
    monkeypatch.setattr(compilation.SETTINGS, "CPU_FEATURES", "")
    assert not checksums.has_instruction()
    monkeypatch.setattr(compilation.SETTINGS, "CPU_FEATURES", "+sse2,+sse4.2")
    assert checksums.has_instruction() == (sys.platform != "darwin" and os.uname().machine == "x86_64")


READ = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from replay_parsers.detection import join
    from replay_parsers.parser import Request
    from replay_parsers.tensorboard import PARSER
    from replay_parsers.tensorboard.crc32c import has_instruction
    from replay_parsers.tensorboard.decoder import decode
    records = join(list(PARSER.read(Request(path=Path(sys.argv[1]), source="s", run="r"))))
    print(len(records.scalars), records.scalars.value.sum(), len(records.problems), has_instruction())
    print(len(decode._dispatcher.signatures))
    """
)


def read_elsewhere(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Read an event file in a process of its own, in this environment."""
    return subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.slow  # compiles the decoder anew
def test_a_processor_without_the_instruction_reads_the_same_and_the_user_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "events"
    content = scalar_file("loss", range(200))
    path.write_bytes(content[:-30] + bytes([content[-30] ^ 1]) + content[-29:])
    cache = tmp_path / "cache"
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(cache)}
    cold = read_elsewhere(path, **generic)
    assert cold.stdout.split() == ["199", str(float(sum(range(199)))), "1", "False", "1"]
    assert cold.stderr.count("compiling the event-file decoder") == 1
    assert str(cache) in cold.stderr
    assert list(cache.rglob("*.nbi"))
    warm = read_elsewhere(path, **generic)
    assert warm.stdout == cold.stdout
    assert "compiling" not in warm.stderr


def test_no_cache_directory_that_can_be_written_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "a file, not a folder"
    blocked.touch()
    monkeypatch.setattr(compilation.SETTINGS, "CACHE_DIR", str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.setattr(compilation, "TELL_AFTER_SECONDS", 1e6)
    assert compilation.writable_cache() is None
    assert Entry(lambda number: number + 1, "int64(int64)")(41) == 42
    monkeypatch.setattr(compilation, "_told", False)
    with caplog.at_level(logging.WARNING):
        compilation._tell(None, "the event-file decoder")
        compilation._tell(None, "the event-file decoder")
    assert caplog.text.count("no cache directory is writable") == 1


def test_a_disk_that_is_full_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compilation, "writable_cache", lambda: tmp_path)
    monkeypatch.setattr(caching.FunctionCache, "save_overload", full)
    assert Entry(lambda number: number + 2, "int64(int64)")(40) == 42


def triple(number: int) -> int:
    return 3 * number


class AtOnce(threading.Timer):
    """A timer that is up as soon as it is started, before anything else goes on."""

    def __init__(self, _seconds: float, *arguments: Any) -> None:
        super().__init__(0.0, *arguments)

    def start(self) -> None:
        super().start()
        self.join()


def test_compiling_is_told_and_loading_from_the_cache_is_not_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compilation, "writable_cache", lambda: tmp_path)
    monkeypatch.setattr(compilation, "threading", SimpleNamespace(Timer=AtOnce))
    for told in (1, 0):
        monkeypatch.setattr(compilation, "_told", False)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert Entry(triple, "int64(int64)")(14) == 42
        assert caplog.text.count("compiling the event-file decoder") == told


@pytest.mark.parametrize("damage", [b"", b"garbage", bytes(1000)], ids=["empty", "garbage", "zeros"])
def test_a_damaged_cache_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    monkeypatch.setattr(compilation, "writable_cache", lambda: tmp_path)
    assert Entry(triple, "int64(int64)")(14) == 42
    for part in ("*.nbc", "*.nbi"):
        (path,) = tmp_path.rglob(part)
        path.write_bytes(damage)
        assert Entry(triple, "int64(int64)")(14) == 42


def test_the_cache_lies_in_the_users_folder_and_is_named_by_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation.SETTINGS, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    folder = compilation.writable_cache()
    assert folder is not None
    assert folder.parent == tmp_path / "replay"
    assert folder.name.startswith("decoder-")
    own = tmp_path / "own"
    monkeypatch.setattr(compilation.SETTINGS, "CACHE_DIR", str(own))
    assert compilation.writable_cache() == own / "replay" / folder.name


def test_numbas_settings_are_as_before_after_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.SETTINGS, "DISABLE_JIT", 1)
    monkeypatch.setattr(compilation.SETTINGS, "CACHE_DIR", "somewhere")
    assert hasattr(compiled(lambda number: number), "py_func")
    assert (compilation.SETTINGS.DISABLE_JIT, compilation.SETTINGS.CACHE_DIR) == (1, "somewhere")


def test_a_wish_not_to_compile_does_not_keep_from_reading(tmp_path: Path) -> None:
    program = """
        from replay_parsers.tensorboard.compilation import Entry

        def largest(number: int) -> int:
            return max(number, 3)

        print(Entry(largest, "int64(int64)")(2))
    """
    settings = {"NUMBA_DISABLE_JIT": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=os.environ | settings
    )
    assert done.stdout == "3\n", done.stderr


def test_telling_a_format_does_not_import_the_compiler() -> None:
    code = "import sys, replay_parsers.tensorboard; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- machine code that is kept for the next process ----------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept machine code, which holds that of this process's decoder."""
    for name in machine_code.NUMBA_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compilation.SETTINGS, "CACHE_DIR", str(tmp_path))
    (folder,) = [folder for folder in cache_folder.folders(str(tmp_path)) if folder.is_relative_to(tmp_path)]
    folder.mkdir(parents=True)
    # The user's own cache may hold the code of an earlier run, which is none of this test's.
    monkeypatch.setattr(cache_folder, "folders", lambda _first: [folder])
    codes = {}
    for name, arguments in DECODER.arguments.items():
        python_function = getattr(decoder, f"_{name}") if name != "decode" else smaller_decode
        entry = Entry(python_function, f"int64({', '.join(['int64'] * arguments)})")
        entry.prepare()
        codes[name] = entry.machine_code()
    DECODER.keep(folder, codes)
    return folder


def smaller_decode(job: int) -> int:
    """In place of the decoder, which takes long to compile."""
    return job + 1


def test_kept_code_is_what_was_compiled(kept: Path) -> None:
    entries = DECODER.kept()
    assert entries is not None
    assert entries["decode"](41) == 42
    data = np.frombuffer(b"123456789" + bytes(8), np.uint8)
    assert entries["extend_checksum"](0, int(data.ctypes.data), 9) == 0xE3069283
    assert entries["mask_checksum"](0xE3069283) == masked(0xE3069283)


@pytest.mark.parametrize("damage", [b"", b"garbage", bytes(1000), None], ids=["empty", "garbage", "zeros", "one bit"])
def test_kept_code_that_is_damaged_is_not_believed(kept: Path, damage: bytes | None) -> None:
    (path,) = kept.glob("*.code")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    assert DECODER.kept() is None


def test_kept_code_is_not_used_for_another_processor(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_name", lambda: "another")
    assert DECODER.kept() is None


@pytest.mark.parametrize("setting", machine_code.NUMBA_SETTINGS)
def test_kept_code_is_not_used_where_numba_is_asked_for_other_code(
    kept: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(setting, "generic")
    assert DECODER.kept() is None


def test_code_that_calls_what_other_processes_lack_is_not_kept() -> None:
    def uses_the_runtime(size: int) -> int:
        return int(np.zeros(size).sum())

    entry = Entry(uses_the_runtime, "int64(int64)")
    entry.prepare()
    with pytest.raises(ValueError, match="needs"):
        entry.machine_code()


def test_the_second_process_reads_without_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(scalar_file("loss", range(50)))
    assert DECODER.kept() or DECODER.compiled()  # as the first process does
    code = (
        "import sys; from pathlib import Path; from replay_parsers.parser import Request\n"
        "from replay_parsers.tensorboard import PARSER\n"
        "read = list(PARSER.read(Request(path=Path(sys.argv[1]), source='s', run='r')))\n"
        "print(sum(len(one.scalars) for one in read), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["50", "False"]
