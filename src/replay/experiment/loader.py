"""Scenarios as YAML: every key known, every fault told with its file and line, and all faults at once."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml

from replay.errors import ReplayError
from replay.experiment.interventions import Intervention, from_fields
from replay.experiment.scenario import MOST_SEEDS, Arm, Noticed, Scenario, ScenarioError
from replay.user_files import UserFileError, read_user_file

BUILT_IN = ("palm-rollback-skip",)
"""Names of the scenarios that come with replay."""

_SCENARIO_KEYS: dict[str, type | tuple[type, ...]] = {
    "scenario": str,
    "title": str,
    "source": str,
    "failure": str,
    "settings": dict,
    "noticed": dict,
    "horizon": int,
    "held_out_sequences": int,
    "recurs_above": (int, float),
    "healthy_below": (int, float),
    "primary": str,
    "seeds": (int, list),
    "arms": list,
}
_NOTICED_KEYS: dict[str, type | tuple[type, ...]] = {"after_onset": int, "rule": str}
_ARM_KEYS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "control": bool,
    "perturbation": (int, float),
    "interventions": list,
}
MOST_IN_SETTINGS = 100_000
"""Numbers of settings and interventions are steps, batches and factors; a larger one is a slip of the pen."""

MOST_INTERVENTIONS = 20
DEEPEST = 20
MOST_FAULTS = 50
_SMALL = ("settings", "arms", "noticed")
_WORDS = {str: "text", int: "a whole number", dict: "a mapping", list: "a list", bool: "true or false"}

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

Made = TypeVar("Made")


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A built-in scenario by its name, or one of a YAML file by its path.

    Raises:
        ScenarioError: there is none, or the file is at fault: each fault with file and line.
    """
    if str(name_or_path) in BUILT_IN:
        file = f"{name_or_path}.yaml"
        text = resources.files(__package__).joinpath("scenarios", file).read_text(encoding="utf-8")
        return parse_scenario(text, file)
    path = Path(name_or_path)
    if not os.path.lexists(path):
        near = difflib.get_close_matches(str(name_or_path), BUILT_IN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"built in are {', '.join(BUILT_IN)}"
        raise ScenarioError(f"no scenario and no file {str(name_or_path)!r}: {hint}")
    try:
        return parse_scenario(read_user_file(path).decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except UserFileError as error:
        raise ScenarioError(str(error)) from error


def parse_scenario(text: str, source: str) -> Scenario:
    """The scenario of a YAML document; ``source`` names it in messages.  Raises as :func:`load_scenario`."""
    try:
        _refuse_unfolding(text, source)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise ScenarioError(f"{source}{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: not YAML: {error}") from error
    reader = _Reader(source)
    reader.check(root)
    reader.told = frozenset(reader.faulty)
    scenario = reader.scenario(root)
    if reader.faults or scenario is None:
        more = [f"and {len(reader.faults) - MOST_FAULTS:,} more"] if len(reader.faults) > MOST_FAULTS else []
        raise ScenarioError("\n".join(reader.faults[:MOST_FAULTS] + more))
    return scenario


def _refuse_unfolding(text: str, source: str) -> None:
    """Nothing in a file may stand for something elsewhere in it, or lie too deep: small files stay small."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        place = f"{source}:{event.start_mark.line + 1 if event.start_mark else 1}"
        if isinstance(event, yaml.AliasEvent):
            raise ScenarioError(f"{place}: alias *{event.anchor}: write the value out")
        if depth > DEEPEST:
            raise ScenarioError(f"{place}: nested deeper than {DEEPEST} levels")


class _Reader:
    """Reads nodes into data classes and collects what is wrong, with the line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.faults: list[str] = []
        self.faulty: list[int] = []
        # Lines of which nothing more is to be said.
        self.told: frozenset[int] = frozenset()

    def fault(self, node: yaml.Node | None, message: str) -> None:
        line = 1 if node is None else node.start_mark.line + 1
        if line in self.told:
            return
        self.faulty.append(line)
        self.faults.append(f"{self.source}:{line}: {message}")

    def check(self, node: yaml.Node | None, name: str = "", most: float = math.inf) -> None:
        """Tell keys that stand twice, numbers that are none, and those of more than ``most`` in size."""
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS:
            value = self.plain(node)
            if not isinstance(value, int | float):
                return
            if not math.isfinite(value):
                self.fault(node, f"{name} must be a finite number, not {node.value}")
            elif abs(value) > most:
                self.fault(node, f"{name} must lie within {most:,.0f} of 0, not {_shown(value)}")
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self.check(item, name, most)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, item in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    self.fault(key, "a key is a word")
                    continue
                if key.value in seen:
                    self.fault(key, f"{key.value} stands here twice")
                seen.add(key.value)
                self.check(item, key.value, MOST_IN_SETTINGS if not name and key.value in _SMALL else most)

    def scenario(self, node: yaml.Node | None) -> Scenario | None:
        fields = self.mapping(
            node, "a scenario", _SCENARIO_KEYS, needs=("scenario", "failure", "noticed", "horizon", "arms")
        )
        if fields is None:
            return None
        nodes = {key: value for key, (value, _) in fields.items()}
        values = {key: value for key, (_, value) in fields.items()}
        noticed = self.mapping(nodes.get("noticed"), "noticed", _NOTICED_KEYS, needs=("after_onset",))
        arms = [self.arm(item) for item in nodes["arms"].value] if "arms" in nodes else []
        if self.faults or noticed is None:
            return None
        values["name"] = values.pop("scenario")
        if "seeds" in values:
            values["seeds"] = self.seeds(nodes["seeds"], values["seeds"])
        values["places"] = self.places(nodes, arms)
        values["arms"] = tuple(arm for arm in arms if arm is not None)
        moment = {key: value for key, (_, value) in noticed.items()}
        if self.faults:
            return None
        moments = {key: value for key, (value, _) in noticed.items()}
        made = self.made(nodes["noticed"], lambda: Noticed(**moment), moments)
        return None if made is None else self.made(node, lambda: Scenario(**(values | {"noticed": made})), nodes)

    def places(self, nodes: Mapping[str, yaml.Node], arms: Sequence[Arm | None]) -> dict[str, str]:
        """The place of each field and arm, as :attr:`Scenario.places` wants it."""
        found = dict(nodes)
        for arm, node in zip(arms, nodes["arms"].value, strict=True):
            if arm is not None:
                found[f"arm {arm.name}"] = node
        return {name: f"{self.source}:{node.start_mark.line + 1}" for name, node in found.items()}

    def seeds(self, node: yaml.Node, value: Any) -> tuple[int, ...]:
        """How many seeds, from 0 on, or which."""
        if (value if isinstance(value, int) else len(value)) > MOST_SEEDS:
            self.fault(node, f"seeds: more than {MOST_SEEDS:,}")
            return (0,)
        chosen = list(range(value)) if isinstance(value, int) else value
        if not chosen or not all(type(seed) is int and 0 <= seed < 2**31 for seed in chosen):
            self.fault(node, f"seeds is how many (3), or which ([0, 5, 7]), not {_shown(value)}")
            return (0,)
        return tuple(chosen)

    def arm(self, node: yaml.Node) -> Arm | None:
        fields = self.mapping(node, "an arm", _ARM_KEYS, needs=("interventions",))
        if fields is None:
            return None
        items = fields["interventions"][0].value if "interventions" in fields else []
        if len(items) > MOST_INTERVENTIONS:
            self.fault(fields["interventions"][0], f"an arm has at most {MOST_INTERVENTIONS} interventions")
            return None
        done = [self.intervention(item) for item in items]
        if not all(done):
            return None
        values = {key: value for key, (_, value) in fields.items()}
        values["interventions"] = tuple(done)
        values.setdefault("name", "+".join(str(one.kind) for one in done if one is not None))
        return self.made(node, lambda: Arm(**values))

    def intervention(self, node: yaml.Node) -> Intervention | None:
        """``kind: {field: value}``, or the kind alone where it needs no field."""
        if isinstance(node, yaml.ScalarNode):
            return self.made(node, lambda: from_fields(str(node.value), {}))
        if not isinstance(node, yaml.MappingNode) or len(node.value) != 1:
            self.fault(node, "an intervention is one kind and its fields, as in `rollback: {step: -100}`")
            return None
        kind, fields = node.value[0]
        values = self.plain(fields)
        if not isinstance(values, Mapping):
            self.fault(fields, f"{kind.value} needs its fields as a mapping, as in `rollback: {{step: -100}}`")
            return None
        return self.made(node, lambda: from_fields(str(kind.value), values))

    def mapping(
        self,
        node: yaml.Node | None,
        what: str,
        known: Mapping[str, type | tuple[type, ...]],
        needs: tuple[str, ...],
    ) -> dict[str, tuple[yaml.Node, Any]] | None:
        """The entries of a mapping as node and plain value, those of the wrong type or name told and left out."""
        if not isinstance(node, yaml.MappingNode):
            self.fault(node, f"{what} is a mapping with {', '.join(known)}")
            return None
        found: dict[str, tuple[yaml.Node, Any]] = {}
        entries = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        for key, value in entries:
            if key.value not in known:
                near = difflib.get_close_matches(str(key.value), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self.fault(key, f"{what} has no {key.value!r}: {hint}")
            else:
                plain = self.plain(value)
                if self.fits(value, key.value, plain, known[key.value]):
                    found[key.value] = (value, plain)
        told = {key.value for key, _ in entries}
        for name in needs:
            if name not in told:
                self.fault(node, f"{what} needs {name}")
        return found

    def fits(self, node: yaml.Node, name: str, value: Any, wanted: type | tuple[type, ...]) -> bool:
        if isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
            return True
        words = _WORDS.get(wanted, "a number") if isinstance(wanted, type) else "a number"
        self.fault(node, f"{name} must be {words}, not {_shown(value)}")
        return False

    def plain(self, node: yaml.Node) -> Any:
        """A node as plain values, by YAML's safe rules."""
        constructor = yaml.constructor.SafeConstructor()
        try:
            return constructor.construct_document(node)
        except yaml.MarkedYAMLError as error:
            self.fault(node, f"not a plain value: {error.problem}")
        except ValueError as error:
            # A date with a month 13, a number of thousands of digits.
            self.fault(node, f"not a plain value: {error}")
        return None

    def made(
        self, node: yaml.Node | None, make: Callable[[], Made], fields: Mapping[str, yaml.Node] | None = None
    ) -> Made | None:
        """What ``make`` makes; a fault is told at the field or arm that it names, where that is among ``fields``."""
        try:
            return make()
        except ReplayError as error:
            if isinstance(error, ScenarioError) and fields:
                node = next((fields[name] for name in error.fields if name in fields), node)
                if error.arm is not None:
                    node = fields["arms"].value[error.arm]
            self.fault(node, str(error))
            return None


def _shown(value: object) -> str:
    """A value as it was written, no longer than fits into a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
