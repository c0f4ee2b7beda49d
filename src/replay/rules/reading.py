"""Rule files: YAML to :class:`Rule`, every fault with its file and line, all of them at once.

Nothing in a rule is ever run as code: detectors and their settings are a closed vocabulary.

    rules:
      - name: scale-then-loss
        summary: The loss scale falls, and soon the loss rises.
        when:                                  # a detector, or any / all / then of several
          then:
            - drop: {signal: loss_scale, scale: log, change: 0.85, sigmas: 0, settle: true}
            - spike: {signal: loss, change: 0.2}
          within: 100                          # steps
        for: {points: 2}                       # or {steps: 20}; 1 point unless given
        tolerate: 1                            # quiet points that do not end it
        severity: critical                     # info, warning, critical
        announces: loss_explosion              # an event kind
        advice: Go back to a checkpoint before the fall.
        source: GLM-130B training notes.
        tests: [...]                           # see replay.rules.series_tests

Detectors: spike, drop, drift, floor, ceiling, nonfinite, plateau, growth, changepoint; their settings are documented
where they are defined, in :mod:`replay.rules.detectors`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replay import signals
from replay.rules.detectors import DETECTORS
from replay.rules.faults import Faults, RuleFileError, suggestion
from replay.rules.model import Combination, Condition, Rule, Severity
from replay.rules.series_tests import read as read_tests
from replay.user_files import UserFileError, read_user_file
from replay_parsers.kinds import EventKind
from replay_parsers.timeline_document import Listing, Mapping, Node, read_document

COMBINATIONS = ("any", "all", "then")
_REQUIRED = ("name", "summary", "when", "severity", "announces", "advice", "source")
_OPTIONAL = ("for", "tolerate", "single_point_severity", "tests")
_MOST_PARTS = 10


def builtin_files() -> list[Path]:
    """The rule files that come with replay."""
    return sorted((Path(__file__).parent / "builtin").glob("*.yaml"))


def read_rules(paths: Iterable[Path]) -> list[Rule]:
    """The rules of several files.  Raises :class:`RuleFileError` that lists every fault of every file."""
    faults: list[str] = []
    rules: list[Rule] = []
    for path in paths:
        rules += _RuleFile(path, faults).read()
    places: dict[str, str] = {}
    for rule in rules:
        place = f"{rule.file}:{rule.line}"
        if rule.name in places:
            faults.append(f"{place}: rule `{rule.name}` is already defined at {places[rule.name]}")
        places.setdefault(rule.name, place)
    if faults:
        raise RuleFileError(faults)
    return rules


class _RuleFile:
    def __init__(self, path: Path, faults: list[str]) -> None:
        self._path = path
        self._faults = Faults(path, faults)

    def read(self) -> list[Rule]:
        """The rules without a fault."""
        try:
            data = read_user_file(self._path)
        except UserFileError as error:
            self._faults.add(0, error.reason)
            return []
        document = read_document(data)
        for fault in document.faults:
            self._faults.add(fault.line, fault.message)
        root = document.root
        if not isinstance(root, Mapping) or not isinstance(root.entries.get("rules"), Listing):
            self._faults.add(root.line if root else 1, "expected `rules:`, a list of rules")
            return []
        self._faults.keys(root, ("rules",))
        listing = root.entries["rules"]
        items = listing.items if isinstance(listing, Listing) else []
        return [rule for item in items if (rule := self._rule(item)) is not None]

    def _rule(self, node: Node) -> Rule | None:
        faults = self._faults
        if not isinstance(node, Mapping):
            faults.add(node.line, f"a rule is a mapping with {', '.join(_REQUIRED)}")
            return None
        faults.keys(node, (*_REQUIRED, *_OPTIONAL))
        missing = [name for name in _REQUIRED if name not in node.entries]
        if missing:
            faults.add(node.line, f"a rule needs {', '.join(missing)}")
            return None
        entries = node.entries
        texts = {name: faults.text(entries[name], name) for name in ("name", "summary", "advice", "source")}
        when = self._condition(entries["when"])
        severity = self._word(entries["severity"], "severity", Severity)
        announces = self._word(entries["announces"], "announces", EventKind)
        single = entries.get("single_point_severity")
        single_severity = self._word(single, "single_point_severity", Severity) if single is not None else None
        for_points, for_steps = self._duration(entries.get("for"))
        tolerate = 0
        if "tolerate" in entries:
            tolerate = int(faults.number(entries["tolerate"], "tolerate", low=0, high=10_000, whole=True) or 0)
        tests = read_tests(entries["tests"], faults) if "tests" in entries else ()
        if when is None or severity is None or announces is None or not all(texts.values()):
            return None
        return Rule(
            **texts,
            when=when,
            severity=severity,
            announces=announces,
            for_points=for_points,
            for_steps=for_steps,
            tolerate=tolerate,
            single_severity=single_severity,
            tests=tests,
            file=str(self._path),
            line=node.line,
        )

    def _word(self, node: Node, name: str, words: type[Any]) -> Any:
        value = self._faults.text(node, name)
        if not value:
            return None
        known = [str(word) for word in words]
        if value in known:
            return words(value)
        expected = f"; expected one of {', '.join(known)}" if len(known) < 10 else ""
        self._faults.add(node.line, f"`{name}`: {value} is none{suggestion(value, known) or expected}")
        return None

    def _duration(self, node: Node | None) -> tuple[int, int]:
        """(points, steps) for which a condition must hold."""
        if node is None:
            return 1, 0
        if not isinstance(node, Mapping):
            self._faults.add(node.line, "`for` is a mapping with `points` or `steps`")
            return 1, 0
        self._faults.keys(node, ("points", "steps"))
        found = {"points": 1.0, "steps": 0.0}
        for name in found:
            if name in node.entries:
                found[name] = self._faults.number(node.entries[name], name, low=0, high=10_000_000, whole=True) or 0
        return max(1, int(found["points"])), int(found["steps"])

    def _condition(self, node: Node) -> Condition | Combination | None:
        faults = self._faults
        words = (*DETECTORS, *COMBINATIONS)
        if not isinstance(node, Mapping):
            faults.add(node.line, f"`when` is a mapping of one of {', '.join(words)}")
            return None
        chosen = [name for name in node.entries if name in words]
        for name in node.entries:
            if name not in words and name != "within":
                hint = suggestion(name, words) or f"; expected one of {', '.join(words)}"
                faults.add(node.key_lines[name], f"no detector is called `{name}`{hint}")
        if len(chosen) != 1:
            faults.add(node.line, f"a condition has exactly one of {', '.join(words)}; here {len(chosen)}")
            return None
        name = chosen[0]
        if name in COMBINATIONS:
            return self._combination(name, node)
        if "within" in node.entries:
            faults.add(node.key_lines["within"], "`within` belongs to any, all or then")
        return self._detector(name, node.entries[name])

    def _combination(self, how: str, node: Mapping) -> Combination | None:
        listing = node.entries[how]
        if not isinstance(listing, Listing) or not 2 <= len(listing.items) <= _MOST_PARTS:
            self._faults.add(listing.line, f"`{how}` is a list of 2 to {_MOST_PARTS} conditions")
            return None
        within = 0
        if "within" in node.entries:
            number = self._faults.number(node.entries["within"], "within", low=0, high=10_000_000, whole=True)
            within = int(number or 0)
        parts = [self._condition(item) for item in listing.items]
        known = tuple(part for part in parts if part is not None)
        return Combination(how, known, within) if len(known) == len(parts) else None

    def _detector(self, name: str, node: Node) -> Condition | None:
        faults = self._faults
        kind = DETECTORS[name]
        if not isinstance(node, Mapping) or "signal" not in node.entries:
            faults.add(node.line, f"`{name}` needs a `signal`")
            return None
        fields = {field.name: field for field in dataclasses.fields(kind.settings)}
        faults.keys(node, ("signal", *fields))
        signal = faults.text(node.entries["signal"], "signal")
        table = signals.builtin()
        if signal and not table.knows(signal):
            names = [known for known in table.names if "*" not in known]
            faults.add(node.entries["signal"].line, f"no signal is called `{signal}`{suggestion(signal, names)}")
        settings: dict[str, Any] = {}
        for key, entry in node.entries.items():
            if key in fields:
                value = self._setting(fields[key], entry)
                if value is None:
                    return None
                settings[key] = value
        for key in kind.required:
            if key not in settings:
                faults.add(node.line, f"`{name}` needs `{key}`: {fields[key].metadata['meaning']}")
                return None
        return Condition(signal, name, kind.settings(**settings))

    def _setting(self, field: dataclasses.Field[Any], node: Node) -> Any:
        faults, metadata = self._faults, field.metadata
        if metadata["choices"]:
            value = faults.text(node, field.name)
            if value in metadata["choices"]:
                return value
            faults.add(node.line, f"`{field.name}` must be one of {', '.join(metadata['choices'])}")
            return None
        if isinstance(field.default, bool):
            words = {"true": True, "false": False}
            word = faults.text(node, field.name)
            if word.lower() not in words:
                faults.add(node.line, f"`{field.name}` must be true or false")
            return words.get(word.lower())
        whole = isinstance(field.default, int)
        number = faults.number(node, field.name, low=metadata["low"], high=metadata["high"], whole=whole)
        return int(number) if whole and number is not None else number
