"""The rungs: a plan, a side of it that must FAIL, one that must PASS, and the check that names it.

The table is `rungs.toml`. A side changes keys of the plan, such as the release that is run. What
plays a side is given the document of that side alone (`harness.ladder.climb`), not what is
expected of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from cluster import documents
from cluster.schemas import Schema, Text
from cluster.values import valueclass
from harness.campaigns import campaign_names, load, read_document
from harness.errors import PlanError

_FOLDER = Path(__file__).parent
_CHECKOUT = Path(__file__).parents[2]
"""Plans of the packages beside this one lie there alone."""

_Changes = Annotated[dict[Text, Any], Field(min_length=1)]


@valueclass
class Rung:
    """A known bug: how it is shown, and how its absence is."""

    id: Text
    about: Text
    """What goes wrong, in one clause."""
    plan: Text
    """A campaign by name; else a file of this folder, or of the checkout."""
    fails: _Changes
    """Keys of the plan, those of a table behind its name and a dot -> their values: must FAIL."""
    passes: _Changes
    check: Text
    """The check, in the simulated world the property, that must FAIL."""
    minutes: Annotated[float, Field(gt=0)]
    """Of one run of each side, on two idle cores."""
    cause: Text = ""
    """What the explanation of that check must contain, where it alone does not name the bug."""

    def document(self, side: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return the plan of a side. Raises PlanError."""
        document = {**self._plan(), "seed": seed}
        if "system" in side:
            document.pop("system_options", None)
        for path, value in side.items():
            table, dot, key = path.partition(".")
            document[table] = {**document.get(table, {}), key: value} if dot else value
        return document

    @property
    def backend(self) -> str:
        """Where the plan is run."""
        return str(self._plan().get("backend", "local"))

    def _plan(self) -> dict[str, Any]:
        if self.plan in campaign_names():
            return load(self.plan)
        file = (_FOLDER if self.plan.startswith("plans/") else _CHECKOUT) / self.plan
        if not file.exists():
            raise PlanError(f"{self.plan} lies in a clone of Kraftprobe alone: run this rung there")
        return read_document(file)


def label(side: Mapping[str, Any]) -> str:
    """Name a side as the table does: a release by its number, a setting by its key and value."""
    return ", ".join(_label(path, value) for path, value in side.items())


def _label(path: str, value: Any) -> str:
    if (path, value) == ("system", "kraft"):
        return "our node"
    if path == "system_options.version":
        return "our raft" if value == "kraft" else str(value)
    if path == "system_options.features":
        return str(value)
    key = path.rpartition("system_options.")[2].removeprefix("node_settings.")
    if isinstance(value, list):
        return " to ".join(value)
    return f"{key} = {str(value).lower() if isinstance(value, bool) else value}"


@valueclass
class _Table:
    rung: Annotated[tuple[Rung, ...], Field(min_length=1)]


@cache
def rungs() -> Mapping[str, Rung]:
    """Return the rungs by id, in the order of the table."""
    table = (
        Schema(_Table, PlanError)
        .read(documents.read_document(_FOLDER / "rungs.toml", "a table of rungs", PlanError))
        .rung
    )
    return {rung.id: rung for rung in table}
