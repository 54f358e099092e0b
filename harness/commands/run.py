"""`run`: one campaign from plan to verdict."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from cluster.backends.registry import BACKENDS
from harness.campaigns import error_origin, load
from harness.commands.options import (
    SEED_MAX,
    Command,
    absolute_builds,
    path_option,
    runs_option,
    shown_options,
    spark_option,
)
from harness.errors import UsageError
from harness.terminal.answers import Shown

DEFAULT_CAMPAIGN = "smoke"
_BUILD_MAX = 200
_SYSTEM_OPTIONS = {"kafka_version": "version", "kafka_home": "home", "image": "image"}
"""Options of the command line that are options of the system."""
_RELEASES = "releases"
"""As `cluster.systems.kafka.installation.RELEASES`; a refusal has no time for that module."""
_RUN_FROM = frozenset({"version", "home", _RELEASES})
"""Options of the system that say which release is run: of them the command line's count."""
_OF_PLAN = "  [default: the campaign's]"


@click.command(cls=Command)
@click.option(
    "--campaign",
    default=DEFAULT_CAMPAIGN,
    show_default=True,
    metavar="NAME|FILE",
    help="A named campaign (`kraftprobe list campaigns`), or a plan file in TOML.",
)
@click.option("--workload", metavar="NAME", help=f"What clients do (`list workloads`).{_OF_PLAN}")
@click.option(
    "--backend", metavar="NAME", help=f"Where nodes run: {', '.join(BACKENDS)}.{_OF_PLAN}"
)
@click.option("--system", metavar="NAME", help=f"What is run (`list systems`).{_OF_PLAN}")
@click.option(
    "--kafka-version",
    metavar="V",
    help="A release of Apache Kafka that was fetched (`kafka fetch`), for system apache-kafka. "
    "OLD,NEW: of an upgrade; each may be the folder of an unpacked release.",
)
@path_option("--kafka-home", "An unpacked release of Apache Kafka, for system apache-kafka.")
@click.option(
    "--image",
    metavar="NAME",
    help="An image of yours in which nodes run, for --backend docker; it is never pulled.",
)
@click.option(
    "--system-option",
    "system_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the system (docs/kafka.md); may be repeated.",
)
@click.option("--inventory", metavar="FILE", help="TOML file that names the hosts of backend ssh.")
@click.option("--nodes", type=int, metavar="N", help=f"Number of nodes.{_OF_PLAN}")
@click.option(
    "--duration",
    "duration_s",
    type=float,
    metavar="S",
    help=f"Seconds of faults and load; starting and healing come on top.{_OF_PLAN}",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Repeats the schedule of faults and each client's operations.  [default: drawn]",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=float,
    metavar="R",
    help=f"Operations a second, of all clients together.{_OF_PLAN}",
)
@click.option(
    "--concurrency", type=int, metavar="C", help=f"Clients that work at the same time.{_OF_PLAN}"
)
@click.option(
    "--faults",
    metavar="A,B",
    help=f"Kinds of fault that must come (`list faults`), or 'none'.{_OF_PLAN}",
)
@click.option(
    "--skip-impossible",
    is_flag=True,
    help="Leave out faults that cannot work here; verdict and report name them.",
)
@click.option(
    "--build",
    metavar="TEXT",
    help="What the build under test is called: version, commit, digest, with commas between. Plan, "
    "report, catalogue and gate name it.",
)
@click.option("--mutant", metavar="M", help="Run a deliberately faulty node (`list mutants`).")
@runs_option
@spark_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@shown_options(
    json="Print the verdict as one JSON document.", quiet="Print the path of the report alone."
)
def run(
    runs: Path,
    spark_master: str | None,
    *,
    no_report: bool,
    shown: Shown,
    skip_impossible: bool,
    build: str | None,
    **asked: Any,
) -> int:
    """Run a campaign: cluster up, clients and faults, heal, judge, report.

    Exit code: 0 PASS, 1 FAIL, 2 usage or environment, 3 UNKNOWN, 4 UNDER-EXERCISED.
    """
    if build is not None and not (
        build.isprintable() and len(build) <= _BUILD_MAX and build.strip(" ,")
    ):
        raise UsageError(f"--build: give 1 to {_BUILD_MAX} printable characters, not commas alone")
    with error_origin(asked["campaign"], _origins(asked)):
        document = compose(asked)
        # Each import waits for what may be refused without it: nothing costs a refusal more.
        from harness.doctor.impossible_faults import settle  # noqa: PLC0415

        plan = settle(document, skip=skip_impossible, shown=shown)
    from harness.run.run_to_verdict import own_arguments, perform, repeat_command  # noqa: PLC0415

    return perform(
        plan,
        runs,
        repeat_command(own_arguments(), plan.seed),
        None if build is None else build.strip(),
        spark_master=spark_master,
        with_report=not no_report,
        shown=shown,
    )


def compose(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Apply the command line's options to the campaign's plan; draw a seed unless one is given."""
    document = load(asked["campaign"])
    given = dict(document)
    campaign = document.get("campaign")
    for key in (
        "system",
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
    document |= _system(asked, document)
    if given.get("workload") != document.get("workload"):
        document.pop("workload_options", None)
    if asked.get("faults") is not None:
        document["faults"] = _fault_names(asked["faults"])
        document.pop("without_faults", None)
        if isinstance(document.get("schedule"), list):
            del document["schedule"]
    if isinstance(document.get("expectations"), dict):
        document["expectations"] = _rescale(given, document)
    document.setdefault("seed", random.randrange(SEED_MAX))
    document["campaign"] = campaign
    return document


def _origins(asked: Mapping[str, Any]) -> dict[str, str]:
    """Name the option of each key of the plan that the command line gave."""
    found: dict[str, str] = {}
    for parameter in run.params:
        if asked.get(str(parameter.name)) not in (None, ()):
            key = "system_options" if parameter.name in _SYSTEM_OPTIONS else str(parameter.name)
            found.setdefault(key, parameter.opts[0])
    return found


def _fault_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise UsageError(f"--faults {text!r}: a name is missing")
    return [] if names == ["none"] else names


def _system(asked: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that say which program is run, where options change them."""
    if asked.get("inventory") is not None and document.get("backend") != "ssh":
        raise UsageError("--inventory names the hosts of --backend ssh, on which this is not run")
    changed: dict[str, Any] = {}
    pairs = []
    for text in asked.get("system_options", ()):
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--system-option {text!r}: no KEY=VALUE")
        pairs.append((key, value))
    for name, key in _SYSTEM_OPTIONS.items():
        if asked.get(name) is not None:
            value = asked[name].absolute() if isinstance(asked[name], Path) else asked[name]
            pairs.append(_releases(key, str(value), document))
    options = dict(pairs)
    if len(options) < len(pairs):
        raise UsageError("an option of the system is given twice; give it once")
    if options:
        from harness.plan.plan import OPTIONS  # noqa: PLC0415  (as above)

        of_plan = OPTIONS.read(
            document.get("system_options", {}), place=("the plan's system_options",)
        )
        if options.keys() & _RUN_FROM:
            of_plan = {key: value for key, value in of_plan.items() if key not in _RUN_FROM}
        changed["system_options"] = {**of_plan, **options}
    if asked.get("mutant") is not None:
        changed["mutant"] = asked["mutant"]
    return changed


def _releases(key: str, value: str, document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the option of the system that several releases are, where it goes from one to another.

    Of a system without that option they are of a quorum's nodes.
    """
    if key != "version" or "," not in value:
        return key, value
    from cluster.systems.registry import system_named  # noqa: PLC0415  (other plans need none)

    if _RELEASES not in system_named(str(document.get("system", "kraft"))).options:
        return key, value
    return _RELEASES, absolute_builds(value)


def _rescale(given: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Scale a campaign's expectations to the length, rate and faults of the command line.

    A plan of half the length expects half the operations and half the leader changes. Other nodes
    or faults drop the expected faults, and without a fault that can depose a leader the
    expected leader changes. `harness.plan.document` raises the result to the floor.
    """
    from harness.plan.document import from_document  # noqa: PLC0415  (as above)
    from harness.plan.plan import EXPECTED_MAX  # noqa: PLC0415  (as above)

    expectations = dict(asked["expectations"])
    length = _ratio(given, asked, "duration_s")
    for key, ratio in (
        ("min_operations", length * _ratio(given, asked, "rate_per_s")),
        ("leader_changes", length),
    ):
        value = expectations.get(key)
        if type(value) is int and value <= EXPECTED_MAX:  # else the plan is refused for it
            expectations[key] = math.floor(value * ratio)
    if any(given.get(key) != asked.get(key) for key in ("nodes", "faults", "schedule")):
        expectations.pop("faults", None)
        plan = from_document({**asked, "expectations": {}, "seed": 0})
        if not plan.expectations["leader_changes"]:
            expectations.pop("leader_changes", None)
    return expectations


def _ratio(given: Mapping[str, Any], asked: Mapping[str, Any], key: str) -> float:
    from harness.plan.plan import EXPECTED_MAX, Plan  # noqa: PLC0415  (as above)

    default = next(item.default for item in fields(Plan) if item.name == key)
    before, after = given.get(key, default), asked.get(key, default)
    usable = all(  # else the plan is refused for it
        isinstance(value, int | float) and 0.01 <= value <= EXPECTED_MAX
        for value in (before, after)
    )
    return after / before if usable else 1.0
