"""One plan file on every arm: same nodes, workloads, faults, interpreter, evidence and checkers."""

import asyncio
import secrets
from pathlib import Path

import pytest

from checkers.verdict import Status
from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from cluster.systems.kraft import KraftSystem
from harness import evidence
from harness.campaign import Run, conduct
from harness.plan import from_document, read_document
from harness.recorder import Recorder
from harness.running import plan_document
from results.pipeline import judge
from results.store import RunStore
from tests.conformance.arms import DockerArm

PLAN = Path(__file__).parent / "plan.toml"


@pytest.mark.parametrize("workload", ["register", "topics", "set"])
def test_a_campaign_passes_on_every_arm(arm, workload, tmp_path):
    passes(arm, workload, tmp_path)


@pytest.mark.cluster
def test_the_same_plan_passes_in_containers(tmp_path):
    try:
        engine.connect().close()
    except BackendError as error:
        pytest.skip(str(error))
    passes(DockerArm(), "register", tmp_path)


def passes(arm, workload, tmp_path):
    """Play the plan there; evidence and every check must be without fault."""
    plan = from_document(read_document(PLAN) | {"workload": workload})
    store = RunStore.create(
        tmp_path, plan_document(plan, f"run-{secrets.token_hex(4)}", "kraftprobe run")
    )

    with store.journal_writer() as journal:

        async def work(backend, clock):
            recorder = Recorder(journal, asyncio.get_running_loop().time)
            reads = await conduct(Run(plan, backend, recorder, clock))
            for read in reads.reads.values():
                store.write_final_read(read)

        arm.play(work, store.folder, plan.nodes)
        assert evidence.collect(store, KraftSystem(), plan.node_names) == []

    results = judge(store)
    told = {check.checker: (check.status, check.summary) for check in results.checks}
    assert results.status is Status.PASS, told
    assert {"log-agreement", "election-safety", "exercised"} <= set(told)
