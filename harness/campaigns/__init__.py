"""Campaigns by name: plans in TOML, to be run by name or copied and changed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster import documents
from cluster.names import unknown
from harness.errors import PlanError

_FOLDER = Path(__file__).parent
_BYTES_MAX = 20_000_000
"""What the swarm draws for a long run is long."""
_ABOUT = frozenset({"version", "campaign", "about", "exposes"})
"""Keys that say nothing of what a run does."""


def campaign_names() -> tuple[str, ...]:
    """Names of the campaigns that come with the toolkit, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def text_of(name: str) -> str:
    """Return a campaign's file as it is, to be copied and changed. Raises PlanError."""
    if name not in campaign_names():
        raise PlanError(unknown("campaign", name, campaign_names()))
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def read_document(path: Path) -> dict[str, Any]:
    """Read a plan file, TOML or JSON, for `harness.plan.document`. Raises PlanError."""
    document = documents.read_document(path, "a plan", PlanError, bytes_max=_BYTES_MAX)
    if not document.keys() - _ABOUT:
        raise PlanError(f"{path}: says nothing of what is run, such as workload, faults or nodes")
    document.setdefault("campaign", path.stem)
    return document


@contextlib.contextmanager
def error_origin(source: str | Path | None, options: Mapping[str, str] = {}) -> Iterator[None]:
    """Have a PlanError name the option that was typed, else the file of the plan.

    `source`: name of a campaign, or its file. `options`: key of a plan -> the option that gave its
    value.
    """
    try:
        yield
    except PlanError as error:
        line = str(error)
        # A line begins with its place in the plan (`cluster.schemas`), if it has one.
        place = re.match(r"([a-z_]+)(?:\.\w+| \d+)?(:| must )", line)
        origin = None if place is None else options.get(place[1])
        if origin is not None and place is not None:
            line = origin + line[place.start(2) :]
        elif source is None or source in campaign_names():
            raise
        elif not line.startswith(f"{Path(source)}: "):
            line = f"{source}: {line}"
        raise PlanError(line) from error


def load(name: str) -> dict[str, Any]:
    """Read the plan of a campaign by name, or of a file by path. Raises PlanError."""
    if name in campaign_names():
        return read_document(_FOLDER / f"{name}.toml")
    if name.endswith((".toml", ".json")) or "/" in name:
        return read_document(Path(name))
    raise PlanError(unknown("campaign", name, campaign_names()))
