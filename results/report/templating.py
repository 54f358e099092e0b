"""What every page of ours is made with: templates, and the escape of all that comes from runs."""

from __future__ import annotations

import json
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import seconds

_TEXT_MAX = 2_000
"""Characters of one untrusted text that are shown; what was cut is said."""


def environment() -> Environment:
    """Return the environment of all templates, which escapes every text."""
    made = Environment(
        loader=PackageLoader("results.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["open_end"] = lambda time_ns: time_ns >= OPEN_END_NS
    made.filters["short"] = shorten
    made.filters["seconds"] = seconds
    made.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, default=str)
    return made


def shorten(value: object, limit: int = _TEXT_MAX) -> str:
    """Return the text, cut where it is very long, saying how long it was."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def template_text(name: str) -> str:
    """Return a file of the templates as it is."""
    return resources.files("results.report").joinpath("templates", name).read_text(encoding="utf-8")
