"""What leaders answer to requests for other voters: which of these may begin."""

import datetime as dt
import uuid
from collections import defaultdict
from types import SimpleNamespace

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    AddVoterRequest,
    FetchRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
)
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.messages import FeatureUpdateKey, UpdateFeaturesRequest, i8, i16
from harness.sim.sights.world import VoterAnswers
from tests.checkers.invariants.watching import found_in

LATE = ErrorCode.request_timed_out
DISK, OTHER_DISK = uuid.UUID(int=1), uuid.UUID(int=2)
REMOVE = RemoveVoterRequest(None, 2, DISK)
ADD = AddVoterRequest(None, 1_000, 3, DISK, ())
UPDATE = UpdateVoterRequest(None, 4, 2, DISK, (), 0, 1)
UPGRADE = UpdateFeaturesRequest(
    timeout=dt.timedelta(seconds=1),
    validate_only=False,
    feature_updates=(
        FeatureUpdateKey(feature="kraft.version", max_version_level=i16(1), upgrade_type=i8(1)),
    ),
)


def may_begin(
    request,
    *,
    voters=(1, 2),
    version=1,
    at=5,
    appended=-1,
    mark=9,
    pending=None,
    asks=(),
    answers=(),
    fetches=(),
    told=(2,),
):
    """Whether a leader of epoch 4 may, whose voters are of offset `at` and use `DISK`."""
    mesh = SimpleNamespace(
        **{f"on_{at}": defaultdict(list) for at in ("ask", "answer", "serve", "reply")}
    )
    known = VoterSet(Voter(ReplicaKey(i, DISK), Endpoint(i, f"n{i}", 1)) for i in voters)
    control = SimpleNamespace(voters=known, voters_offset=at, kraft_version=version)
    core = SimpleNamespace(
        log=SimpleNamespace(control=control, end=OffsetAndEpoch(9, 4), end_offset=9),
        leader=SimpleNamespace(
            epoch=4,
            high_watermark=mark,
            last_change_offset=appended,
            leader_id=1,
            is_voter=1 in voters,
            updated_voters=dict.fromkeys(told),
        ),
        pending_change=pending,
        config=SimpleNamespace(local_voter=True),
        shutting_down=False,
    )
    node = SimpleNamespace(raft=SimpleNamespace(_core=core))
    host, shown = SimpleNamespace(process=SimpleNamespace(node=node)), []
    VoterAnswers(SimpleNamespace(nodes={"n1": host}, mesh=mesh), lambda *seen: shown.append(seen))
    mesh.on_serve[type(request)][0]("n1", request)
    for epoch, offset in fetches:
        fetch = FetchRequest(None, 3, DISK, epoch, offset, 4, 0, 1)
        mesh.on_serve[FetchRequest][0]("n1", fetch)
    for asking in asks:
        mesh.on_ask[ApiVersionsRequest][0](asking, None)
    for error in answers:
        answer = SimpleNamespace(error_code=error)
        mesh.on_answer[ApiVersionsRequest][0]("n1", None, answer)
    answer = SimpleNamespace(error=LATE, error_code=LATE)
    mesh.on_reply[type(request)][0]("n1", request, answer)
    ((_, _, fields),) = shown
    return fields["may_begin"]


@pytest.mark.parametrize(
    ("request_", "state"),
    [
        (REMOVE, {}),
        (ADD, {}),
        (UPDATE, {}),
        (UPDATE, {"version": 0, "at": -1}),
        (ADD, {"asks": ["n2"]}),
        (ADD, {"asks": ["n1"], "answers": [ErrorCode.none], "fetches": [(4, 9), (4, 9)]}),
        (UPGRADE, {"version": 0, "at": -1}),
        (UPGRADE, {}),
    ],
    ids=[
        *("removal", "addition", "update", "update of a static voter", "another asks"),
        "the new voter has answered, and holds the log",
        *("upgrade", "upgrade that was made"),
    ],
)
def test_a_change_may_begin_once_the_last_one_is_committed(request_, state):
    assert may_begin(request_, **state)


@pytest.mark.parametrize(
    ("request_", "state"),
    [
        (REMOVE, {"mark": 5}),
        (REMOVE, {"appended": 9}),
        (REMOVE, {"mark": None}),
        (REMOVE, {"pending": "an addition"}),
        (REMOVE, {"version": 0, "at": -1}),
        (REMOVE, {"voters": (2,)}),
        (REMOVE, {"voters": (1, 3)}),
        (RemoveVoterRequest(None, 2, OTHER_DISK), {}),
        (ADD, {"voters": (1, 2, 3)}),
        (ADD, {"asks": ["n1"]}),
        (ADD, {"asks": ["n1"], "answers": [LATE], "fetches": [(4, 9), (4, 9)]}),
        (ADD, {"asks": ["n1"], "answers": [ErrorCode.none], "fetches": [(4, 8), (3, 9), (4, 9)]}),
        (UpdateVoterRequest(None, 3, 2, DISK, (), 0, 1), {}),
        (UPGRADE, {"version": 0, "at": -1, "told": ()}),
        (UPGRADE, {"mark": 5}),
    ],
    ids=[
        "the last one is not committed",
        "the last one is on its way",
        "nothing is",
        "another is under way",
        "static voters",
        "the only voter",
        "no voter",
        "another disk",
        "a voter already",
        "it has asked the new voter",
        "the new voter answers with an error",
        "the new voter may lack what was appended meanwhile",
        "an earlier epoch",
        "a voter has not described itself",
        "the upgrade is not committed",
    ],
)
def test_a_change_may_not_begin(request_, state):
    assert not may_begin(request_, **state)


CHANGES = {
    "version": 1,
    "backend": "sim",
    "nodes": 4,
    "seed": 1,
    "duration_s": 14,
    "rate_per_s": 5,
    "concurrency": 2,
    "workload": "register",
    "faults": [],
    "world": {"observers": 1},
    "schedule": [
        {"at_ms": 500, "steps": [{"kind": "voters", "change": "upgrade"}]},
        {"at_ms": 8_000, "steps": [{"kind": "voters", "targets": "node:n4", "change": "add"}]},
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        ("X:kraft.reconfiguration:Reconfiguration._check_may_begin:always:1", "changes-taken"),
        ("X:kraft.reconfiguration:Reconfiguration._check_new_voter:always:4", "changes-taken"),
        (None, None),
    ],
)
def test_worlds_find_a_leader_that_takes_no_change(mutant, found):
    assert found_in(CHANGES, mutant, found) == found
