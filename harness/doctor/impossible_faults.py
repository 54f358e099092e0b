"""Plans with faults that cannot work where they are to run.

Such a plan is refused before anything starts, with one line for each fault. With
`--skip-impossible` it runs without them and records each with its reason (`Plan.skipped`). Results,
report, JUnit file and terminal name the skipped faults, so a partial run never looks like a whole
one; its PASS opens the gate only with `kraftprobe gate --allow-skipped`; and when none of the
requested faults is left, the run is UNDER-EXERCISED.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from checkers.runs import exercised
from cluster.backends.base import Probe
from cluster.systems.kafka.roles import OPTION as ROLES
from harness.errors import ImpossibleError, UsageError
from harness.plan.document import from_document
from harness.plan.plan import Plan, Skipped, fault_kinds
from harness.plan.strands import strand_to_json, without_faults
from harness.plan.system_request import request_of, system_of
from harness.terminal.answers import Shown
from harness.terminal.progress import Steps, console_of
from nemeses.processes.addresses import RoleChange
from workloads.base import CLIENT, OWN

OPEN_FILES_MIN = 128
"""Sockets and logs of three nodes, and of clients."""
_WITH_ROLES = "--system apache-kafka"
_ASKING = frozenset(
    {
        *("resign", "snapshot", "voters", "finalize", "log-dir-loss", "log-dir-move"),
        *("bit-flip", "truncate-file", "disk-wipe", "address-change", "role-change"),
    }
)
"""Faults that ask something of a node in Kafka's protocol, or by a signal that ends other nodes, or
that damage the metadata log by its files' format and heal by its quorum. A system that is none can
list damage if it says where (`cluster.systems.base.System.damageable`)."""


def asked_faults(plan: Plan) -> tuple[str, ...]:
    """List every kind of fault that a run of this plan would inject, in a fixed order."""
    return tuple(dict.fromkeys((*plan.faults, *fault_kinds(plan))))


def settle(document: Mapping[str, Any], *, skip: bool, shown: Shown = Shown.LINES) -> Plan:
    """Return the plan of a document as it can run here.

    Raises PlanError; SettingError where its system is not installed; BackendError where no node
    can run on its backend; ImpossibleError, unless `skip`, when a fault cannot work there.
    """
    plan = from_document(document)
    if (lack := lack_of_files(plan.backend)) is not None:
        raise UsageError(f"{lack.reason}: {lack.remedy}")
    # Imports what makes clusters: not for a plan that is refused.
    from harness.doctor.fault_probes import try_faults  # noqa: PLC0415

    # What it is started from must be there before anything is tried or stored.
    system_of(plan, plan.campaign)
    if plan.workload_options.get(CLIENT, OWN) != OWN:
        plan.kind.java(request_of(plan))
    asked = asked_faults(plan)
    probes = _unfit(plan, asked)
    untried = tuple(kind for kind in asked if kind not in probes)
    probes |= try_faults(plan, untried, Steps(console_of(shown)))
    impossible = {kind: probe for kind, probe in probes.items() if not probe.possible}
    if not impossible:
        return plan
    if not skip:
        lines = [refusal(kind, plan.backend, probe) for kind, probe in impossible.items()]
        raise ImpossibleError([*lines, "nothing was started; --skip-impossible runs the rest"])
    return from_document(without(document, plan, impossible))


def lack_of_files(backend: str) -> Probe | None:
    """Say where this process may not open what a run on real sockets needs at the least."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if backend == "sim" or not 0 <= most < OPEN_FILES_MIN:
        return None
    reason = f"this process may open {most} files, and a run needs {OPEN_FILES_MIN} at the least"
    return Probe(possible=False, reason=reason, remedy="raise the limit, such as by ulimit -n 1024")


def _unfit(plan: Plan, kinds: tuple[str, ...]) -> dict[str, Probe]:
    """Say of which faults the system cannot be put under on the plan's backend."""
    if not plan.kind.can_describe:
        reason = f"system {plan.system} is no metadata quorum, whose requests or files it needs"
        listed = frozenset() if plan.kind.faults is None else plan.kind.faults[plan.backend]
        lacks = _ASKING - listed.intersection({"bit-flip", "truncate-file"})
        asked = {kind: Probe(possible=False, reason=reason) for kind in kinds if kind in lacks}
        return asked | _unfit_by_name(plan, tuple(kind for kind in kinds if kind not in asked))
    found = _unfit_by_name(plan, kinds)
    if RoleChange.name in kinds and ROLES not in plan.kind.options:
        reason = f"nodes of system {plan.system} have no roles of their own"
        found[RoleChange.name] = Probe(possible=False, reason=reason, remedy=_WITH_ROLES)
    return found


def _unfit_by_name(plan: Plan, kinds: tuple[str, ...]) -> dict[str, Probe]:
    """Say which faults the system does not list."""
    faults = plan.kind.faults
    if faults is None:
        return {}
    here, elsewhere = faults[plan.backend], frozenset().union(*faults.values())
    reason = f"system {plan.system} cannot be put under it"
    found = {}
    for kind in kinds:
        if kind in elsewhere - here:
            places = " or ".join(
                f"--backend {name}" for name in sorted(faults) if kind in faults[name]
            )
            found[kind] = Probe(possible=False, reason=f"{reason} there", remedy=places)
        elif kind not in here:
            found[kind] = Probe(possible=False, reason=reason)
    return found


def without(
    document: Mapping[str, Any], plan: Plan, impossible: Mapping[str, Probe]
) -> dict[str, Any]:
    """Return the document without these faults, which it records as skipped.

    A scripted schedule loses their entries; a random one is drawn from the kinds that are left.
    """
    left = dict(document)
    left["faults"] = [kind for kind in plan.faults if kind not in impossible]
    scripted: list[dict[str, Any]] = []
    if isinstance(document.get("schedule"), list):
        scripted = [entry.to_json() for entry in plan.schedule if entry.fault not in impossible]
        scripted += [strand_to_json(without_faults(strand, impossible)) for strand in plan.strands]
        left["schedule"] = scripted
    skipped = [Skipped(kind, probe.reason, probe.remedy) for kind, probe in impossible.items()]
    left["skipped"] = [asdict(row) for row in (*plan.skipped, *skipped)]
    expectations = dict(document.get("expectations", {}))
    if "faults" in expectations:
        expectations["faults"] = [kind for kind in expectations["faults"] if kind not in impossible]
    if not exercised.can_depose({"nodes": plan.nodes, **left, "schedule": scripted}):
        expectations.pop("leader_changes", None)
    left["expectations"] = expectations
    return left


def refusal(kind: str, backend: str, probe: Probe) -> str:
    """Render in one line that a fault cannot work here, with reason and remedy."""
    line = f"{kind} cannot work on backend {backend}: {probe.reason or 'its probe failed'}"
    return line + (f" (remedy: {probe.remedy})" if probe.remedy else "")
