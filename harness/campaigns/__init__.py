"""Campaigns by name: plans in TOML, to be run by name or copied and changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster import documents
from cluster.names import unknown
from harness.errors import PlanError

_FOLDER = Path(__file__).parent
_BYTES_MAX = 20_000_000
"""What the swarm draws for a long run is long."""


def campaign_names() -> tuple[str, ...]:
    """Names of the campaigns that come with the toolkit, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def text_of(name: str) -> str:
    """Return a campaign's file as it is, to be copied and changed. Raises PlanError."""
    if name not in campaign_names():
        raise PlanError(unknown("campaign", name, campaign_names()))
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def read_document(path: Path) -> dict[str, Any]:
    """Read a plan file, TOML or JSON; what it means is for `harness.plan`. Raises PlanError."""
    document = documents.read_document(path, "a plan", PlanError, bytes_max=_BYTES_MAX)
    document.setdefault("campaign", path.stem)
    return document


def load(name: str) -> dict[str, Any]:
    """Read the plan of a campaign by name, or of a file by path. Raises PlanError."""
    if name in campaign_names():
        return read_document(_FOLDER / f"{name}.toml")
    if name.endswith((".toml", ".json")) or "/" in name:
        return read_document(Path(name))
    raise PlanError(unknown("campaign", name, campaign_names()))
