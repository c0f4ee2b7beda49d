"""Arrays made by hand hold what pyarrow's own conversion makes of the same values."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.storage import arrays, schema

texts = st.text(st.characters(codec="utf-8"), max_size=5)
whole = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(datetime(1, 1, 2), datetime(9998, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of ``kind`` or None."""
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({one.name: values(one.type) for one in kind})
    if pa.types.is_map(kind):
        key = texts
        return st.none() | st.lists(st.tuples(key, values(kind.item_type)), max_size=3)
    if pa.types.is_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    plain = {
        pa.string(): texts,
        pa.int64(): whole,
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.uint64(): st.integers(0, 2**64 - 1),
        pa.float64(): st.floats(allow_nan=False),
        pa.bool_(): st.booleans(),
        schema.TIME: moments,
    }
    return st.none() | plain[kind]


@pytest.mark.parametrize(
    "columns",
    [schema.EVENTS, schema.RUNS, schema.FINDINGS, schema.PROBLEMS, schema.LEDGER],
    ids=["events", "runs", "findings", "problems", "ledger"],
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_rows_are_as_pyarrow_makes_them(columns: pa.Schema, data: st.DataObject) -> None:
    one = st.fixed_dictionaries({}, optional={field.name: values(field.type) for field in columns})
    rows = data.draw(st.lists(one, max_size=4))
    made = arrays.table(rows, columns)
    made.validate(full=True)
    assert made.equals(pa.Table.from_pylist(rows, schema=columns))
    assert made.schema == columns


def test_times_of_any_zone_are_in_utc() -> None:
    moment = datetime(2022, 6, 20, 9, 10, tzinfo=timezone(timedelta(hours=8)))
    (made,) = arrays.array([moment], schema.TIME).to_pylist()
    assert made == moment


def test_a_type_that_no_table_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no array of"):
        arrays.array([b"a"], pa.binary())


def test_an_ingest_loads_no_pandas_and_only_the_parsers_it_asks(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        "".join(f" iteration {n:8d}/ 100 | lm loss: 2.0E+00 | loss scale: 1.0 | grad norm: 1.000 |\n" for n in range(9))
    )
    code = (
        "import sys; from replay.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({'pandas', 'numba', 'torch', 'rich'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "ingest", str(tmp_path / "train.log"), "--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
