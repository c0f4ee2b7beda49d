"""A report: queries in, one HTML file out."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import altair
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from replay.output import visible
from replay.report.charts import charts, step_domain
from replay.report.checks import check
from replay.report.effects import CAVEAT, effect_tables
from replay.report.links import Links, configuration
from replay.report.reading import ReadableStore, read_run
from replay.report.summary import summarise
from replay.report.tables import attempt_rows, flag_rows, incident_rows, loose_events
from replay.report.words import EVIDENCE_MEANING
from replay.rules import Rule


def build_report(store: ReadableStore, run: str, *, rules: Sequence[Rule] | None = None) -> str:
    """The post-mortem of ``run`` as one HTML page that needs no network and runs no script but its own.

    ``rules`` are those to look with, the built-in ones unless others are given.
    The same store gives the same bytes.  Raises :class:`replay.errors.ReplayError` when the store holds no such run.
    """
    reading = read_run(store, run, rules)
    checks = check(reading)
    drawn = charts(reading)
    first, last = step_domain(reading)
    script = _asset("report.js")
    library = vega_scripts()
    page = _environment().get_template("report.html.j2")
    return page.render(
        run=run,
        title=reading.facts.get("title") or run,
        summary=summarise(reading, checks),
        checks=checks,
        charts=drawn,
        reach=max(20, (last - first) // 40),
        specs=json_for_script({chart.name: _packed(chart.spec) for chart in drawn}),
        incidents=incident_rows(reading),
        loose=loose_events(reading),
        flags=flag_rows(reading),
        attempts=attempt_rows(reading),
        effects=effect_tables(reading),
        caveat=CAVEAT,
        evidence=EVIDENCE_MEANING,
        links=Links(reading.facts),
        configuration=configuration(reading.facts),
        style=Markup(_asset("report.css")),  # noqa: S704 - a file of this package
        library=Markup(library),  # noqa: S704 - Vega's own scripts
        script=Markup(script),  # noqa: S704 - a file of this package
        script_hashes=[_content_hash(library), _content_hash(script)],
    )


def json_for_script(value: Any) -> Markup:
    """``value`` as JSON that is safe inside a script element: no text in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - every character that HTML could read was replaced above


def _packed(spec: dict[str, Any]) -> dict[str, Any]:
    """The same chart with its datasets as columns, a fifth of the bytes; the page's script makes rows of them."""
    columns = {
        name: {key: [row.get(key) for row in rows] for key in rows[0]} if rows else {}
        for name, rows in spec["datasets"].items()
    }
    return spec | {"datasets": columns}


@functools.cache
def vega_scripts() -> str:
    """Vega, Vega-Lite and vega-embed in the versions that Altair writes for, as one script."""
    major_minor = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    script: str = vl_convert.javascript_bundle(vl_version=major_minor)  # type: ignore[call-arg]
    # "</script" may stand in a string of the library; the escaped slash means the same to JavaScript.
    return script.replace("</script", "<\\/script")


def _content_hash(script: str) -> str:
    """The hash by which the page's own policy lets a script run, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Text from logs with control and direction characters spelled out, so that none can disguise another."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("replay.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
