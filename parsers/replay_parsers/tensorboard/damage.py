"""Damage in an event file: how far it goes, what it costs, and how that is told.

Three things are told apart.  A *cut-off tail* (a record that is not complete, or zero bytes up to the end, as in
a file whose space was reserved in advance) is a state: the writer may still be at work, nothing is lost, and the
next reading begins there.  *Corruption* (a checksum of a complete record does not hold) is an error: reading goes
on at the next place where a header's checksum holds, and the bytes in between are lost.  *Invalid* content has
good checksums: a writer's fault rather than the disk's.
"""

from __future__ import annotations

from dataclasses import dataclass

from replay_parsers.records import Problem, ProblemKind
from replay_parsers.tensorboard.layout import FOOTER_BYTES, HEADER_BYTES

MOST_PROBLEMS = 100
"""Problems of one kind that a piece tells one by one; the rest are summed up in one more."""

_WAITING = "nothing is lost, and the next reading begins here"


def cut_off_message(left: int, wanted: int) -> str:
    """A tail of ``left`` bytes where a record of ``wanted`` bytes begins (0: not even its header is complete)."""
    if not wanted:
        return f"the file ends {left} bytes into a record, before its header is complete; {_WAITING}"
    return f"the file ends {left} bytes into a record of {wanted}: still being written, or cut off; {_WAITING}"


def zeros_message(count: int) -> str:
    """A tail of ``count`` zero bytes."""
    return f"the last {count} bytes are zeros: space reserved by the writer, or left by a crash; {_WAITING}"


def unwritten_message(record: int) -> str:
    """A record of ``record`` bytes whose end, and all that follows, are zeros."""
    return f"a record of {record} bytes ends in zeros, as does the file: not yet written out; {_WAITING}"


class Ledger:
    """Collects the problems and losses of a piece."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._clear()

    def _clear(self) -> None:
        self._problems: list[Problem] = []
        self._surplus: dict[ProblemKind, list[Problem]] = {}
        self._counts: dict[ProblemKind, int] = {}
        self._lost_bytes = 0
        self._lost_records = 0

    def add(self, kind: ProblemKind, offset: int, message: str, lost_bytes: int = 0, lost_records: int = 0) -> None:
        """Tell a problem at ``offset``."""
        problem = Problem(
            source=self._source,
            kind=kind,
            message=message,
            offset=offset,
            lost_bytes=lost_bytes,
            lost_records=lost_records,
        )
        self._lost_bytes += lost_bytes
        self._lost_records += lost_records
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= MOST_PROBLEMS:
            self._problems.append(problem)
        else:
            self._sum_up(problem)

    def _sum_up(self, problem: Problem) -> None:
        earlier = self._surplus.get(problem.kind, [problem])[0]
        again = 0 if earlier is problem else 1
        count = self._counts[problem.kind] - MOST_PROBLEMS
        self._surplus[problem.kind] = [
            Problem(
                source=self._source,
                kind=problem.kind,
                message=f"{count} more places like the {MOST_PROBLEMS} before, the first of them here",
                offset=earlier.offset,
                lost_bytes=problem.lost_bytes + again * earlier.lost_bytes,
                lost_records=problem.lost_records + again * earlier.lost_records,
            )
        ]

    def take(self) -> tuple[tuple[Problem, ...], int, int]:
        """The problems since the last call, and the bytes and records lost."""
        summed_up = [problem for problems in self._surplus.values() for problem in problems]
        taken = (*self._problems, *summed_up), self._lost_bytes, self._lost_records
        self._clear()
        return taken


@dataclass(slots=True, kw_only=True)
class Resynchronisation:
    """The search for the end of one stretch of damage.

    ``begin`` is the file offset at which it begins, ``record`` the size of the record there when its header holds
    and its payload does not (else 0), ``impossible`` the length that the header states when its checksum holds although
    no message is so long (else 0), ``told_to`` the offset up to which an earlier reading, which reached the end
    of the file in the midst of it, has told the loss (0: this is the first).
    """

    begin: int
    record: int = 0
    impossible: int = 0
    told_to: int = 0
    _first_data: int = -1
    _data_end: int = 0

    def look_at(self, content: bytes, offset: int) -> None:
        """Note where in the searched bytes at ``offset`` there is more than zeros."""
        without_tail = content.rstrip(b"\0")
        if without_tail:
            self._data_end = offset + len(without_tail)
            if self._first_data < 0:
                self._first_data = offset + len(content) - len(content.lstrip(b"\0"))

    def _tell_lost(self, ledger: Ledger, end: int, how_it_ends: str) -> None:
        begin = max(self.begin, self.told_to)
        if end <= begin:
            return
        only_zeros = self._first_data < 0
        if self.told_to:
            what = f"the damage before this goes on for {end - begin} bytes"
        elif self.record:
            what = f"the payload's checksum does not hold (a record of {self.record} bytes)"
        elif self.impossible:
            what = f"the header states a record of {self.impossible} bytes, which no message has"
        elif only_zeros:
            what = f"{end - begin} zero bytes where a record should begin"
        else:
            what = "the header's checksum does not hold"
        lost_records = 0 if self.told_to or only_zeros else 1
        ledger.add(ProblemKind.CORRUPT, begin, f"{what}; {how_it_ends}", end - begin, lost_records)

    def end_at_record(self, ledger: Ledger, found: int) -> None:
        """Tell what was lost: the next record is at the file offset ``found``."""
        self._tell_lost(ledger, found, f"reading goes on at byte {found}")

    def end_at_end_of_file(self, ledger: Ledger, end: int) -> tuple[int, int]:
        """Tell what was lost up to the file's ``end``, at which no other record was found.

        Returns where the next reading begins, and up to where the loss has been told: the last bytes may be the
        beginning of a header, so they are looked at again, but not told again.
        """
        zeros_from = max(self._data_end, self.begin)
        if not self.told_to and zeros_from == self.begin:
            ledger.add(ProblemKind.TRUNCATED, self.begin, zeros_message(end - self.begin))
            return self.begin, 0
        if self.record and self._data_end <= self.begin + self.record - FOOTER_BYTES:
            ledger.add(ProblemKind.TRUNCATED, self.begin, unwritten_message(self.record))
            return self.begin, 0
        # Fewer zeros than a header has bytes are no tail: lengths end in zeros.
        damage_end = zeros_from if end - zeros_from >= HEADER_BYTES else end
        self._tell_lost(ledger, damage_end, "no other record follows so far")
        if damage_end < end:
            ledger.add(ProblemKind.TRUNCATED, damage_end, zeros_message(end - damage_end))
        first = self.begin if self.told_to else self.begin + 1
        return max(first, damage_end - HEADER_BYTES + 1), max(damage_end, self.told_to)
