"""Summaries in a book's own text: tables with totals and shares, sums in a sentence, and how often something is said
to have happened against how often the book tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from replay.history.audit.book import BACK, Notes, Telling
from replay.history.audit.passages import Passage
from replay.history.audit.tables import Table, column, number_of, percent_of, tables
from replay.history.audit.totals import percent_follows

_SUM_OF_PARTS = re.compile(
    r"\b(?:in total|in all|altogether|total(?:ling)?(?: of)?|overall|a sum of)\b|合计|总计|总共|共计|一共",
    re.IGNORECASE,
)
_ITEMS = re.compile(
    r"(?<![\w.,])(?P<whole>\d{1,6})(?![\d.,%])[^\d.;:：(（\n]{0,50}[:：(（—–-]\s?"
    r"(?P<parts>\d{1,6}(?![\d.%])[^\d.;\n]{1,50}"
    r"(?:(?:,|，|、|;| and | plus |和|以及)\s?(?:and )?\d{1,6}(?![\d.%])[^\d.;\n]{1,50}){1,8}?)"
    r"(?=[.。)）;\n]|$)"
)
_RESTARTS = re.compile(r"\b(?:re-?starts?|relaunch\w*|resum\w+)\b|重启|恢复训练", re.IGNORECASE)
_ROLLBACKS = re.compile(r"\broll-?backs?\b|\brewinds?\b|回滚|回退", re.IGNORECASE)
_GOES_BACK = re.compile(
    r"\b(?:re-?start\w*|relaunch\w*|resum\w+|roll\w* back|rollback|revert\w*|rewound|rewind|went back|back to|came back"
    r"|brought (?:it )?back|continu\w+ from|restored)\b|重启|回滚|回退|恢复|续训",
    re.IGNORECASE,
)
_TOLD_COUNT = re.compile(
    r"\b(?:a total of|in total,?|in all,?|altogether,?|overall,?) (?:\w+ ){0,3}?(?P<a>\d{1,4}|[a-z]+) (?:\w+ )?"
    r"(?P<what_a>restarts|rollbacks)\b"
    r"|\b(?P<b>\d{1,4}|[a-z]+) (?:\w+ )?(?P<what_b>restarts|rollbacks) (?:in total|in all|altogether|overall)\b"
    r"|(?:共|总共|一共)(?:发生)?(?P<what_c>重启|回滚)了?\s?(?P<c>\d{1,4})\s?次"
    r"|(?:共|总共|一共)\s?(?P<d>\d{1,4})\s?次(?P<what_d>重启|回滚)",
    re.IGNORECASE,
)
_WORDS = {
    word: number
    for number, word in enumerate(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
        ],
        1,
    )
}
_NOT_SUMMED = re.compile(
    r"\b(?:mean|average|avg|median|max\w*|min\w*|peak|rate|per|step|iteration|iter|loss|lr|id|no|rank|date|time|when|mtbf"
    r"|speed|throughput|precision|size|version|run|attempt|cumulative)s?\b|[#№]|平均|中位|最大|最小|步|编号|累计",
    re.IGNORECASE,
)
_NESTED = re.compile(r"^\W*(?:of which|thereof|incl|sub-?total|其中|小计)|^(?:&nbsp;|↳|—|–)", re.IGNORECASE)


def check(telling: Telling, where: Mapping[int, Passage], notes: Notes) -> None:
    """Test every table and every counting sentence of a book whose text is at hand."""
    if telling.curated:
        return
    if not telling.text:
        notes.unchecked["tables and sums in the text"] = "the text is not at hand; give the file itself"
        return
    if not telling.entries:
        return
    for table in tables(telling.text):
        wrong = _total_row(telling, table, notes)
        _shares(telling, table, notes)
        _counted(telling, table, wrong, where, notes)
    _sentences(telling, where, notes)


def _tell(
    telling: Telling,
    line: int,
    check_name: str,
    readings: Sequence[str],
    likely: str | None,
    reasons: str,
    notes: Notes,
) -> None:
    notes.add(telling, None, check_name, readings, likely, reasons)
    notes.findings[-1] = replace(notes.findings[-1], locator=f"line {line}")


def _row_line(table: Table, row: int) -> int:
    return table.line + 2 + row


def _total_row(telling: Telling, table: Table, notes: Notes) -> set[int]:
    """Every column of plain counts against the total printed below it; returns the columns that do not add up."""
    total, wrong = table.total, set[int]()
    if total is None or len(table.parts) < 2 or any(_NESTED.match(row[0]) for row in table.parts if row):
        return wrong
    for place, name in enumerate(table.names):
        printed = number_of(total[place]) if place < len(total) else None
        cells = column(table.parts, place)
        parts = [number_of(cell) for cell in cells]
        told = [part for part in parts if part is not None]
        blank = all(part is not None or not re.search(r"\d", cell) for part, cell in zip(parts, cells, strict=True))
        if printed is None or len(told) < 2 or not blank or _NOT_SUMMED.search(name):
            continue
        notes.compared["sums"] += 1
        # Each part may be rounded at its last digit.
        decimals = max(len(cell.partition(".")[2]) for cell in (*cells, total[place]))
        rounding = 0.0 if decimals == 0 else 0.5 * (len(told) + 1) * 10.0**-decimals
        if abs(sum(told) - printed) > rounding + 1e-9 * printed:
            wrong.add(place)
            _tell(
                telling,
                _row_line(table, len(table.rows) - 1),
                "total",
                (f"total of {name or 'the column'}: {printed:g}", f"sum of its {len(told)} rows: {sum(told):g}"),
                None,
                "the rows do not add up to the total below them",
                notes,
            )
    return wrong


def _shares(telling: Telling, table: Table, notes: Notes) -> None:
    """A column of percentages against the column of counts that most of them follow from."""
    rows = table.parts
    for place in range(len(table.names)):
        percents = [percent_of(cell) for cell in column(rows, place)]
        if sum(one is not None for one in percents) < 2:
            continue
        best: tuple[int, int, list[float | None], float] | None = None
        for other in range(len(table.names)):
            counts = [number_of(cell) for cell in column(rows, other)]
            printed = number_of(table.total[other]) if table.total and other < len(table.total) else None
            for whole in dict.fromkeys((sum(one or 0.0 for one in counts), printed)):
                pairs = [(c, p) for c, p in zip(counts, percents, strict=True) if c is not None and p is not None]
                if other == place or not whole or len(pairs) < 2:
                    continue
                right = sum(percent_follows(count, whole, percent) for count, percent in pairs)
                if best is None or right > best[0]:
                    best = right, len(pairs), counts, whole
        if best is None:
            continue
        right, paired, counts, whole = best
        notes.compared["percentages"] += paired if right else 0
        # Where few follow, the percentages are of something else.
        if right == paired or right < 2 or right < 0.6 * paired:
            continue
        for row, (count, percent) in enumerate(zip(counts, percents, strict=True)):
            if count is not None and percent is not None and not percent_follows(count, whole, percent):
                share = f"{100 * count / whole:.{len(percent.partition('.')[2])}f}%"
                _tell(
                    telling,
                    _row_line(table, row),
                    "total",
                    (f"printed: {percent}%", f"{count:g} of {whole:g}: {share}"),
                    share,
                    f"the other {right} percentages of the table follow from their counts; {percent}% would be "
                    f"{float(percent) * whole / 100:.1f}",
                    notes,
                )


def _counted(telling: Telling, table: Table, wrong: set[int], where: Mapping[int, Passage], notes: Notes) -> None:
    """How many restarts or rollbacks a table counts, against those that the book tells."""
    if any(_row_line(table, 0) <= passage.line <= _row_line(table, len(table.rows)) for passage in where.values()):
        return
    for place, name in enumerate(table.names):
        what = _RESTARTS if _RESTARTS.search(name) else _ROLLBACKS if _ROLLBACKS.search(name) else None
        total = table.total
        printed = None if total is None or place >= len(total) else number_of(total[place])
        if what is None or printed is None or place in wrong:
            continue
        line = _row_line(table, len(table.rows) - 1)
        _against_told(telling, line, what is _ROLLBACKS, printed, f"total of {name}: {printed:g}", where, notes)


def _sentences(telling: Telling, where: Mapping[int, Passage], notes: Notes) -> None:
    for number, text in enumerate(telling.text.splitlines(), 1):
        line = text[:2000]
        if not any(digit.isdigit() for digit in line) and not _TOLD_COUNT.search(line):
            continue
        if _SUM_OF_PARTS.search(line):
            for found in _ITEMS.finditer(line):
                _items(telling, number, found, notes)
        for found in _TOLD_COUNT.finditer(line):
            word = (found["a"] or found["b"] or found["c"] or found["d"]).lower()
            count = int(word) if word.isdigit() else _WORDS.get(word)
            what = found["what_a"] or found["what_b"] or found["what_c"] or found["what_d"]
            if count is not None:
                back = _ROLLBACKS.search(what) is not None
                _against_told(telling, number, back, count, f"printed: {found[0]}", where, notes)


def _items(telling: Telling, line: int, found: re.Match[str], notes: Notes) -> None:
    """ "9 in all: 4 by hardware, 3 by software and 2 by hand"."""
    whole = int(found["whole"])
    parts = [int(one) for one in re.findall(r"(?:^|,|，|、|;|and |plus |和|以及)\s?(\d{1,6})", found["parts"])]
    if len(parts) < 2:
        return
    notes.compared["sums"] += 1
    if sum(parts) != whole:
        _tell(
            telling,
            line,
            "total",
            (f"printed: {whole}", f"{' + '.join(map(str, parts))}: {sum(parts)}"),
            None,
            "the parts named in the sentence do not add up to its total",
            notes,
        )


def _against_told(
    telling: Telling, line: int, rollbacks: bool, count: float, printed: str, where: Mapping[int, Passage], notes: Notes
) -> None:
    """A count of restarts against the book: between those surely told and the sentences that may tell one."""
    kinds = BACK[1:] if rollbacks else BACK
    told = sum(any(event.step is not None for event in entry.of_kind(*kinds)) for entry in telling.entries)
    least = sum(any(event.step is not None for event in entry.of_kind(kinds[0])) for entry in telling.entries)
    events = sum(len(entry.of_kind(*BACK)) for entry in telling.entries)
    texts = [f"{passage.own}\n{passage.rest}" for passage in where.values()]
    words = sum(len(_GOES_BACK.findall(text)) for text in dict.fromkeys(texts))
    most = max(told, events, words)
    if not told:
        return
    notes.compared["counts against the entries"] += 1
    if least <= count <= most:
        return
    _tell(
        telling,
        line,
        "total",
        (printed, f"told in the entries: {least}" if count < least else f"told in the entries: {told}"),
        None,
        "the book tells more of them than it counts"
        if count < least
        else "the book counts more of them than it tells; some may have been left out",
        notes,
    )
