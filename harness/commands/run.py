"""`run`: one campaign from plan to verdict."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harness.campaigns import load
from harness.commands.options import runs_option, spark_option
from harness.plan import read_document
from harness.possible import settle
from harness.running import Request, own_arguments, perform, repeat_command

DEFAULT_CAMPAIGN = "smoke"
_SEED_MAX = 2**31


@click.command()
@click.option("--campaign", default=DEFAULT_CAMPAIGN, show_default=True, metavar="NAME|FILE")
@click.option("--workload", metavar="NAME", help="What clients do.")
@click.option("--backend", metavar="NAME", help="Where nodes run.")
@click.option("--inventory", metavar="FILE", help="Of the hosts of backend ssh.")
@click.option("--nodes", type=int, metavar="N")
@click.option("--duration", "duration_s", type=float, metavar="S", help="Seconds with faults.")
@click.option("--seed", type=int, metavar="N", help="Of schedule and operations.")
@click.option("--rate", "rate_per_s", type=float, metavar="R", help="Operations a second.")
@click.option("--concurrency", type=int, metavar="C", help="Client workers.")
@click.option("--faults", metavar="A,B", help="Kinds of fault that must come; 'none' for none.")
@click.option(
    "--schedule",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Scripted schedule: a plan file with a list of [[schedule]] entries.",
)
@click.option(
    "--skip-impossible",
    is_flag=True,
    help="Leave out faults that cannot work here; verdict and report name them.",
)
@click.option("--mutant", metavar="M", help="Run a deliberately faulty node, to test the alarm.")
@runs_option
@spark_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
def run(
    runs: Path, spark_master: str | None, *, no_report: bool, skip_impossible: bool, **asked: Any
) -> int:
    """Run a campaign: cluster up, clients and faults, heal, judge, report.

    Exit code: 0 PASS, 1 FAIL, 2 usage or environment, 3 UNKNOWN, 4 UNDER-EXERCISED.
    """
    plan = settle(compose(asked), skip=skip_impossible)
    request = Request(
        plan=plan,
        runs=runs,
        command=repeat_command(own_arguments(), plan.seed),
        spark_master=spark_master,
        with_report=not no_report,
    )
    return perform(request, datetime.now(UTC))


def compose(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Lay what the command line says over the campaign's plan; draw a seed where none is told."""
    document = load(asked["campaign"])
    campaign = document.get("campaign")
    for key in (
        "workload",
        "backend",
        "inventory",
        "nodes",
        "duration_s",
        "seed",
        "rate_per_s",
        "concurrency",
    ):
        if asked.get(key) is not None:
            document[key] = asked[key]
    if asked.get("mutant") is not None:
        document["mutant"] = asked["mutant"]
    if asked.get("workload") is not None:
        document.pop("workload_options", None)
    _adapt_expectations(document, asked)
    if asked.get("faults") is not None:
        names = [name.strip() for name in asked["faults"].split(",") if name.strip()]
        document["faults"] = [] if names == ["none"] else names
        if isinstance(document.get("schedule"), list):
            del document["schedule"]
    if asked.get("schedule") is not None:
        scripted = read_document(asked["schedule"])
        document["schedule"] = scripted.get("schedule", [])
        if asked.get("faults") is None:
            document.pop("faults", None)
    document.setdefault("seed", random.randrange(_SEED_MAX))
    document["campaign"] = campaign
    return document


def _adapt_expectations(document: dict[str, Any], asked: Mapping[str, Any]) -> None:
    """Drop what a plan expects of its own length and faults when the user changes those."""
    expectations = document.get("expectations")
    if not isinstance(expectations, dict):
        return
    kept = dict(expectations)
    if asked.get("duration_s") is not None or asked.get("rate_per_s") is not None:
        kept.pop("min_operations", None)
    if asked.get("faults") is not None or asked.get("schedule") is not None:
        kept.pop("leader_changes", None)
        kept.pop("faults", None)
    document["expectations"] = kept
