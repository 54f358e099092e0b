"""Fake nodes that are started with another role."""

import pytest
from fake_system import FakeSystem
from hosted_nodes import run_up

from cluster.backends.local.local_backend import LocalBackend
from nemeses.drive import inject
from nemeses.processes import addresses
from tests.play import play
from tests.views import StubView, mend, refusal

BOTH, BROKER = ("CONTROLLER", "CLIENT"), ("CLIENT",)


class Changeable(FakeSystem):
    """Nodes that listen where their roles have them listen; `stuck` ones always do at both."""

    def __init__(self, stuck: str = "", first: str = "") -> None:
        super().__init__()
        self.stuck = stuck
        self.changed = {int(first[1:]): BROKER} if first else {}
        self.change_listeners = self.changed.__setitem__

    def listeners(self, node_id):
        return self.changed.get(node_id, BOTH)

    def files(self, node):
        files = super().files(node)
        if self.listeners(node.node_id) == BOTH or node.name == self.stuck:
            return files
        controller = f'["{node.controller.host}", {node.controller.port}]'
        return {name: text.replace(f", {controller}", "") for name, text in files.items()}


@pytest.fixture
def on_nodes(tmp_path):
    def run(body, system=None):
        backend = LocalBackend(system or Changeable(), tmp_path, 3, "run-1")
        run_up(backend, lambda up: body(StubView(up)))

    return run


def listeners_of(view):
    return [view.backend.abilities().roles.listeners(node) for node in view.backend.nodes]


@play("on_nodes")
async def test_a_controller_is_a_broker_alone_until_the_heal(view):
    before = await view.backend.process("n2")
    done = await inject(view, "role-change", {"targets": "leader"})
    assert (done.targets, done.verified) == (("n2",), True), done.detail
    assert done.detail["since_ms"] > 0, "it goes on"
    assert "took_ms" not in done.detail
    assert await view.backend.process("n2") != before
    assert listeners_of(view) == [BOTH, BROKER, BOTH]
    again = await inject(view, "role-change", {"targets": "node:n2"})
    assert not again.applied
    await mend(view, done)
    assert listeners_of(view) == [BOTH] * 3


@play("on_nodes")
async def test_a_node_that_another_fault_took_gets_its_roles_back_for_its_next_start(view):
    done = await inject(view, "role-change", {"targets": "node:n1"})
    killed = await inject(view, "kill", {"targets": "node:n1"})
    healed = await mend(view, done)
    assert healed.detail["nodes"]["n1"]["left_to"] == "kill"
    await mend(view, killed)
    assert await addresses.listens(view.backend, "n1")


@play("on_nodes")
async def test_a_node_that_does_not_end_at_the_heal_gets_its_role_back(view):
    done = await inject(view, "role-change", {"targets": "node:n2"})
    view.backend.system.stop_timeout_s = 0.0
    await mend(view, done)
    assert listeners_of(view) == [BOTH] * 3


@play("on_nodes", Changeable(stuck="n3"))
async def test_a_node_that_listens_as_a_controller_still_has_its_role(view):
    done = await inject(view, "role-change", {"targets": "node:n3"})
    assert (done.applied, done.verified) == (True, False)
    assert done.detail["reason"] == "n3 still listens as a controller"


@play("on_nodes", Changeable(first="n3"))
async def test_a_broker_has_no_role_to_lose(view):
    assert await refusal(view, "role-change", {"targets": "node:n3"}) == "n3 is no controller"


@play("on_nodes", FakeSystem())
async def test_nodes_with_the_same_roles_always_keep_them(view):
    reason = await refusal(view, "role-change", {"targets": "node:n1"})
    assert reason == "its nodes have the same roles always"
