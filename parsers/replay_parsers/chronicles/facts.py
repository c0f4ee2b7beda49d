"""What the undated sections of a logbook say of the run: batch size, speed, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from replay_parsers.chronicles.clauses import sentences
from replay_parsers.chronicles.clock import without_launches
from replay_parsers.chronicles.entries import Tally
from replay_parsers.chronicles.markdown import BlockKind, Section
from replay_parsers.chronicles.numbers import NUMBER, number
from replay_parsers.chronicles.zones import NAMES, zone_name
from replay_parsers.records import BatchStage

_BATCH = re.compile(
    rf"(?:\bglobal batch size\b|\bGBS\b|全局\s?batch\s?size|全局批(?:大小|次))\s*[:：=]?\s*(?P<n>{NUMBER})",
    re.IGNORECASE,
)
_BATCH_OF_TEST = re.compile(r"\bB(?:SZ|S)\s*=\s*(?:\d+\s*\*\s*\d+\s*=\s*)?(?P<n>\d+)", re.IGNORECASE)
_RATE = re.compile(
    r"(?P<n>\d{1,6}(?:\.\d{1,6})?)\s?(?:s|sec|seconds)\s?(?:/|per|a|an)\s?(?:iter\w*|step|it)\b"
    r"|\b(?:an? |one |each |every |per )?(?:steps?|iterations?)\s(?:takes?|took|lasts?|lasted|needs?)\s"
    r"(?:about |around |roughly |approximately |~ ?)?(?P<m>\d{1,6}(?:\.\d{1,6})?)\s?(?:s|sec|seconds)\b",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s?(?P<unit>[BbTM])\b")
_NODES = re.compile(r"\b(?P<n>\d+)\s*(?:nodes|台|节点)", re.IGNORECASE)
_SETTING = re.compile(r"^(?P<name>[A-Za-z][\w ()./-]{1,40}?)\s*(?:[:：=]|@)\s*(?P<value>\S.*)$")
_PLACE = rf"UTC\s?[+-]\d{{1,2}}(?::\d\d)?|[A-Z][A-Za-z]+/[A-Z]\w+|{NAMES}"
_CLOCK = re.compile(
    rf"\b(?i:all )?(?i:dates?|times?(?:stamps?)?)\b[^.;]{{0,40}}?(?:\b(?:in|are|is)\s(?:all\s)?(?:in\s)?|[:：=]\s?)"
    rf"(?:the )?(?P<zone>{_PLACE})\b"
    # "All times UTC", but no "time PT-3 failed".
    rf"|\b(?:(?i:all )(?i:dates?|times?(?:stamps?)?)|(?i:times))\s(?P<all>{_PLACE})\b(?!-)"
    r"|时间[^。；]{0,10}(?P<zh>北京时间|UTC)"
    rf"|时区\s?[:：]?\s?(?P<zone_zh>{_PLACE})"
    rf"|(?i:\b(?:time\s?zone|tz)\b)[^.;]{{0,40}}?(?P<named>{_PLACE})\b"
    r"|(?i:\b(?:clock|cluster|site)\b)[^.;]{0,40}?(?P<place>UTC\s?[+-]\d{1,2}(?::\d\d)?|[A-Z][A-Za-z]+/[A-Z]\w+)"
)
# "Kite 30B (CET, bf16)"
_CLOCK_OF_TITLE = re.compile(rf"[(（,，]\s?(?P<zone>{_PLACE})\s?[),，）]")
_SCALE = {"M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a logbook says of its run outside its entries."""

    batch: int | None = None
    seconds_per_step: float | None = None
    parameters: float | None = None
    hardware: str = ""
    clock: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def batch_text(self) -> str:
        """The batch size in words."""
        return f"{self.batch} sequences" if self.batch else ""

    @property
    def batch_schedule(self) -> tuple[BatchStage, ...]:
        """The batch size as a schedule of one stage."""
        return (BatchStage(from_step=0, samples=self.batch),) if self.batch else ()


def run_facts(sections: Iterable[Section], title: str, tally: Tally) -> Facts:
    """Read the sections outside entries; each sentence is counted as understood or not."""
    batch: int | None = None
    nodes: int | None = None
    tested: int | None = None
    rates: dict[int | None, float] = {}
    metadata: dict[str, str] = {}
    clock: str | None = None
    for section in sections:
        for block in section.blocks:
            if block.kind is BlockKind.CODE:
                tally.count("line of other code", sum(1 for line in block.raw if line.strip()))
                continue
            text = block.text.strip("| ").replace(" | ", ": ") if block.kind is BlockKind.TABLE else block.text
            for printed in sentences(text):
                known, sentence = False, without_launches(printed).strip(" :：,，")
                if found := _BATCH.search(sentence):
                    batch, known = int(number(found["n"]) or 0) or batch, True
                if found := _BATCH_OF_TEST.search(sentence):
                    tested, known = int(found["n"]), True
                if found := _NODES.search(sentence):
                    nodes, known = nodes or int(found["n"]), True
                if found := _RATE.search(sentence):
                    rates.setdefault(tested, float(found["n"] or found["m"]))
                    known = True
                if (found := _CLOCK.search(sentence)) and (
                    zone := zone_name(next(place for place in found.groups() if place))
                ):
                    clock, known = clock or zone, True
                if (found := _SETTING.match(sentence)) and len(metadata) < 100:
                    metadata.setdefault(found["name"].strip(), found["value"].strip())
                    known = True
                tally.sentence(printed, block.line, understood=known)
    if found := _CLOCK.search(title) or _CLOCK_OF_TITLE.search(title):
        clock = clock or zone_name(next(place for place in found.groups() if place))
    size = _PARAMETERS.search(title)
    return Facts(
        batch=batch,
        seconds_per_step=rates.get(batch, next(iter(rates.values()), None) if len(rates) == 1 else None),
        parameters=float(size["n"]) * _SCALE[size["unit"].upper()] if size else None,
        hardware=f"{nodes} nodes" if nodes else "",
        clock=clock,
        metadata=metadata,
    )
