"""Fake nodes in namespaces that listen elsewhere after a restart, and what leaders name then."""

import json
from uuid import UUID

import pytest
from fake_system import FakeSystem
from hosted_nodes import run_up
from netns_world import require_namespaces

from cluster.backends.base import BackendError
from cluster.backends.hosted import HostedBackend
from cluster.backends.netns.netns_hosts import NetnsProvider
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumResponse, ReplicaDescription
from cluster.node.ports import Endpoint
from nemeses.drive import heal, inject
from nemeses.processes import addresses
from tests.play import play
from tests.views import StubView

pytestmark = pytest.mark.slow
BEGAN, NEXT = 9093, 9095


class Staying(FakeSystem):
    """Nodes that go on listening where their controllers began."""

    def files(self, node):
        config = json.loads(super().files(node)["config.json"])
        began = [node.controller.host, BEGAN]
        others = [place for place in config["listeners"] if place != began]
        return {"config.json": json.dumps({**config, "listeners": [*others, began]})}


class Quorum:
    """Answers for n1, the leader: each look shows the next of `ports` for n2, and more of a log."""

    def __init__(self, *ports: int, dynamic: bool = True, epochs: int = 1, fetches: bool = True):
        self.ports, self.dynamic, self.epochs, self.fetches = ports, dynamic, epochs, fetches
        self.looks = 0

    async def leading(self, view):
        number, self.looks = self.looks, self.looks + 1
        port = self.ports[min(number, len(self.ports) - 1)]
        directory = [UUID(int=7 + voter if self.dynamic else 0) for voter in range(3)]
        ends = {2: 100 + number if self.fetches else 100}
        voters = (
            ReplicaDescription(voter, directory[voter - 1], ends.get(voter, 100 + number), 0, 0)
            for voter in (1, 2, 3)
        )
        return "n1", DescribeQuorumResponse(
            ErrorCode.none,
            leader_id=1,
            leader_epoch=3 + number % self.epochs,
            high_watermark=100 + number,
            voters=tuple(voters),
            nodes=tuple(Endpoint(n, f"10.0.0.{n}", port if n == 2 else BEGAN) for n in (1, 2, 3)),
        )


@pytest.fixture
def moved(tmp_path, monkeypatch, patient):
    """Move n2 where the quorum is described so; returns the injection."""
    require_namespaces()

    def run(quorum, system=None, before=None, known_s=0.4, given_up_s=600.0):
        monkeypatch.setattr(addresses, "leading", quorum.leading)
        monkeypatch.setattr(addresses, "KNOWN_S", known_s)
        monkeypatch.setattr(addresses, "GIVEN_UP_S", given_up_s)
        found = []

        async def body(up):
            view = StubView(up)
            if before is not None:
                await inject(view, *before)
            found.append(await inject(view, "address-change", {"targets": "node:n2"}))

        provider = NetnsProvider(tmp_path, "run-1")
        backend = HostedBackend(provider, system or FakeSystem(), tmp_path, 3, "run-1")
        run_up(backend, body)
        return found[0]

    return run


@play("with_hosts_view")
async def test_a_node_listens_elsewhere_for_good(view, *, monkeypatch):
    monkeypatch.setattr(addresses, "leading", Quorum(NEXT, NEXT, NEXT + 1).leading)
    before = await view.backend.process("n2")
    done = await inject(view, "address-change", {"targets": "leader"})
    assert (done.targets, done.verified) == (("n2",), True), done.detail
    own = {"from": BEGAN, "to": NEXT, "incarnation": 1, "named": True}
    assert done.detail["nodes"] == {"n2": own}
    assert await view.backend.process("n2") != before
    for node, port in (("n1", BEGAN), ("n2", NEXT), ("n3", BEGAN)):
        text = (view.backend.node_folder(node) / "config.json").read_text(encoding="utf-8")
        assert [where for _, where in json.loads(text)["listeners"]] == [9092, port]
    killed = await inject(view, "kill", {"targets": "node:n2"})
    refused = await inject(view, "address-change", {"targets": "node:n2"})
    assert not refused.applied, "it is dead"
    assert (await heal(view, killed)).verified
    assert (await heal(view, done)).verified
    assert view.backend.endpoint("n2").port == NEXT
    with pytest.raises(BackendError, match="n2 cannot listen elsewhere: it is running"):
        await view.backend.change_address("n2")


def test_a_leader_that_names_the_old_address_of_its_follower_is_a_violation(moved):
    done = moved(Quorum(BEGAN))
    assert done.detail["took_ms"] >= 400, "with the time in which it was looked at"
    assert done.detail["violations"] == [
        {
            "node": "n2",
            "kind": "address-unknown",
            "explanation": "leader n1 still names port 9093 of n2, which has listened at port 9095 "
            "and followed n1 for 0.4 s: other voters do not reach it",
        }
    ]


@pytest.mark.parametrize(
    ("quorum", "before"),
    [
        (Quorum(BEGAN, epochs=2), None),
        (Quorum(BEGAN, fetches=False), None),
        (Quorum(BEGAN), ("partition", {"shape": "isolate", "targets": "node:n2"})),
    ],
    ids=["leaders change", "it does not follow", "it is cut off"],
)
def test_what_may_keep_an_address_from_the_leader_is_no_violation(moved, quorum, before):
    done = moved(quorum, before=before, given_up_s=1.5)
    assert "violations" not in done.detail
    assert (done.applied, done.verified) == (True, False)
    assert done.detail["reason"] == "no leader named port 9095 of n2 in 1.5 s"


def test_an_address_that_becomes_known_late_is_none(moved):
    done = moved(Quorum(BEGAN, BEGAN, NEXT), known_s=600.0)
    assert (done.verified, "violations" in done.detail) == (True, False)


def test_of_configured_voters_no_leader_must_name_an_address(moved):
    done = moved(Quorum(BEGAN, dynamic=False))
    assert (done.verified, "violations" in done.detail) == (True, False)


def test_a_node_that_also_listens_where_it_did_has_not_moved(moved):
    done = moved(Quorum(NEXT), Staying())
    assert (done.applied, done.verified) == (True, False)
    assert done.detail["reason"] == "n2 still listens at port 9093"


@play("with_view")
async def test_where_nodes_share_a_host_nothing_moves(view):
    probe = await addresses.AddressChange().probe(view)
    assert not probe.possible
    assert "try --backend netns or docker" in probe.reason
