"""Scenarios as YAML: every key known, every fault told with its file and line, and all faults at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml

from replay.errors import ReplayError
from replay.experiment.interventions import Intervention, from_fields
from replay.experiment.scenario import Arm, Noticed, Scenario, ScenarioError

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
_WORDS = {str: "text", int: "a whole number", dict: "a mapping", list: "a list", bool: "true or false"}

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
    try:
        return parse_scenario(path.read_bytes().decode("utf-8"), str(path))
    except FileNotFoundError as error:
        near = difflib.get_close_matches(str(name_or_path), BUILT_IN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"built in are {', '.join(BUILT_IN)}"
        raise ScenarioError(f"no scenario and no file {str(name_or_path)!r}: {hint}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error


def parse_scenario(text: str, source: str) -> Scenario:
    """The scenario of a YAML document; ``source`` names it in messages.  Raises as :func:`load_scenario`."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise ScenarioError(f"{source}{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: not YAML: {error}") from error
    reader = _Reader(source)
    scenario = reader.scenario(root)
    if reader.faults or scenario is None:
        raise ScenarioError("\n".join(reader.faults))
    return scenario


class _Reader:
    """Reads nodes into data classes and collects what is wrong, with the line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.faults: list[str] = []

    def fault(self, node: yaml.Node | None, message: str) -> None:
        line = 1 if node is None else node.start_mark.line + 1
        self.faults.append(f"{self.source}:{line}: {message}")

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
        values["arms"] = tuple(arm for arm in arms if arm is not None)
        moment = {key: value for key, (_, value) in noticed.items()}
        if self.faults:
            return None
        return self.made(node, lambda: Scenario(**(values | {"noticed": Noticed(**moment)})))

    def seeds(self, node: yaml.Node, value: Any) -> tuple[int, ...]:
        """How many seeds, from 0 on, or which."""
        chosen = list(range(value)) if isinstance(value, int) else value
        if not chosen or not all(type(seed) is int and seed >= 0 for seed in chosen):
            self.fault(node, f"seeds is how many (3), or which ([0, 5, 7]), not {value!r}")
            return (0,)
        return tuple(chosen)

    def arm(self, node: yaml.Node) -> Arm | None:
        fields = self.mapping(node, "an arm", _ARM_KEYS, needs=("interventions",))
        if fields is None:
            return None
        items = fields["interventions"][0].value if "interventions" in fields else []
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
        for key, value in node.value:
            if key.value not in known:
                near = difflib.get_close_matches(str(key.value), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self.fault(key, f"{what} has no {key.value!r}: {hint}")
            elif key.value in found:
                self.fault(key, f"{key.value} stands here twice")
            else:
                plain = self.plain(value)
                if self.fits(value, key.value, plain, known[key.value]):
                    found[key.value] = (value, plain)
        told = {key.value for key, _ in node.value}
        for name in needs:
            if name not in told:
                self.fault(node, f"{what} needs {name}")
        return found

    def fits(self, node: yaml.Node, name: str, value: Any, wanted: type | tuple[type, ...]) -> bool:
        if isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
            return True
        words = _WORDS.get(wanted, "a number") if isinstance(wanted, type) else "a number"
        self.fault(node, f"{name} must be {words}, not {value!r}")
        return False

    def plain(self, node: yaml.Node) -> Any:
        """A node as plain values, by YAML's safe rules."""
        constructor = yaml.constructor.SafeConstructor()
        try:
            return constructor.construct_document(node)
        except yaml.MarkedYAMLError as error:
            self.fault(node, f"not a plain value: {error.problem}")
            return None

    def made(self, node: yaml.Node | None, make: Callable[[], Made]) -> Made | None:
        try:
            return make()
        except ReplayError as error:
            self.fault(node, str(error))
            return None
