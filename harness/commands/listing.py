"""`list` and `campaign`: the names that plans may use, and the campaigns of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from cluster.mutants import MUTANTS
from harness.campaigns import campaign_names, load, text_of
from harness.commands.options import Command, json_option
from harness.terminal.answers import print_document
from nemeses.registry import FAULTS
from workloads.registry import WORKLOADS

KINDS = ("systems", "workloads", "faults", "campaigns", "mutants")


@click.command("list", cls=Command)
@click.argument("kind", type=click.Choice(KINDS))
@json_option
def list_(kind: str, *, as_json: bool) -> int:
    """List systems, workloads, faults, campaigns or mutants (`runs list` lists runs)."""
    rows: Mapping[str, Callable[[], list[tuple[str, str]]]] = {
        "systems": _systems,
        "workloads": lambda: [(name, WORKLOADS[name].title) for name in WORKLOADS],
        "faults": lambda: [(name, _first_line(FAULTS[name].__doc__)) for name in FAULTS],
        "campaigns": lambda: [(name, _campaign_line(name)) for name in campaign_names()],
        "mutants": lambda: [(mutant.id, mutant.title) for mutant in MUTANTS.values()],
    }
    found = rows[kind]()
    if as_json:
        print_document([{"name": name, "title": title} for name, title in found])
        return 0
    for name, title in found:
        click.echo(f"{name:<14} {title}")
    return 0


@click.command(cls=Command)
@click.argument("name", metavar="NAME")
def campaign(name: str) -> int:
    """Print a named campaign: a plan in TOML, to be changed and run."""
    click.echo(text_of(name), nl=False)
    return 0


def _systems() -> list[tuple[str, str]]:
    from cluster.systems.registry import SYSTEMS  # noqa: PLC0415  (it takes pydantic along)

    return [(kind.name, kind.title) for kind in SYSTEMS.values()]


def _campaign_line(name: str) -> str:
    title = _first_line(text_of(name)).removeprefix("# ").removesuffix(".")
    plan = load(name)
    return f"{title} ({plan['workload']}, {plan['nodes']} nodes, {plan['duration_s']} s)"


def _first_line(text: str | None) -> str:
    """Return the title that a docstring, or a plan's file, begins with."""
    return (text or "").strip().splitlines()[0] if text else ""
