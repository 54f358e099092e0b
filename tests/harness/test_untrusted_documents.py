"""Any content of a file of a run, a user or a node is read, or refused in one line."""

import codecs
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from checkers.earned import EARNED
from checkers.history import Event, EventType, HistoryError
from checkers.verdict import CheckResult, Status
from cluster.backends.base import BackendError
from cluster.backends.processes.records import PROCESSES_FILE, read_recorded
from cluster.backends.sim.settings import SimSettings
from cluster.backends.ssh.inventory import Inventory, inventory_of, read_inventory
from cluster.node.config import ConfigError, load_config
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateError, decode
from cluster.node.log.storage.checkpoint import decode_recovery_point
from cluster.node.runtime.trace import JsonLinesTrace
from cluster.schemas import Schema
from cluster.systems.kinds import SettingError
from cluster.systems.kraft import NODE_SETTINGS, KraftSystem
from harness.campaigns import read_document
from harness.errors import BatchError, PlanError, is_expected
from harness.plan.document import from_document
from harness.sim.batch.batch import Batch
from harness.sim.batch.chunks import BatchPlan
from results.store.evidence_files import load_evidence
from results.store.files import StoreError
from results.store.journal import encode_event, read_journal
from results.store.model import RunResults
from results.store.run_store import RunStore
from tests.harness.sim.plans import REGRESSIONS, completed
from tests.mutations import misvalued, mutated

EVENTS: tuple[dict[str, Any], ...] = (
    {"e": "start", "node_id": 1, "directory_id": "d", "pid": 7, "mutant": None},
    {"e": "state", "state": "Leader", "epoch": 1, "leader_id": 1, "voted_id": 1},
)
ROOT = Path(__file__).resolve().parents[2]
TRACE = b"".join(json.dumps({"t": 5, "n": 0, **fields}).encode() + b"\n" for fields in EVENTS)
JOURNAL = b"".join(
    encode_event(event)
    for event in (
        Event(0, 0, "nemesis", EventType.INFO, "phase", None, {"name": "up"}),
        Event(1, 5, 0, EventType.INVOKE, "write", "k", 1),
        Event(2, 9, 0, EventType.OK, "write", "k", 1, node="n1", offset=4, epoch=1),
    )
)
LOG = json.dumps(
    {"offset": 0, "epoch": 1, "batch_crc": 5, "kind": "TopicRecord", "value": {"name": "t"}}
).encode()
QUORUM_STATE = json.dumps(
    {"leaderId": 1, "leaderEpoch": 2, "votedId": -1, "data_version": 0}
).encode()
FINAL_READ = json.dumps({"offset": 3, "topics": {"t": {}}, "configs": {}}).encode()
PLAN = b"""
nodes = 3
duration_s = 5
rate_per_s = 20
seed = 7
workload = "register"
workload_options = { keys = 3 }
faults = ["kill"]
expectations = { min_operations = 5, faults = ["kill"] }
node_settings = { "controller.quorum.fetch.timeout.ms" = 600 }
[[schedule]]
at_s = 1.5
for_s = 2
fault = "kill"
parameters = { targets = "node:n2" }
"""
STRANDS = b"""
version = 1
seed = 7
nodes = 3
backend = "sim"
duration_s = 5
[world]
loss = 0.1
[[schedule]]
at_ms = 10
steps = [
  { kind = "cast", names = { A = "leader" }, until = { established = true } },
  { kind = "op", id = "one", f = "write", key = "k0", value = "one", targets = "@A" },
  { kind = "wait", until = { ok = "one" } },
  { kind = "kill", targets = "@A", keep = "nothing", for_ms = 100 },
  { kind = "hold", links = "@A>all", types = "FetchRequest" },
  { kind = "release", links = "@A>all" },
  { kind = "heal", fault = "kill,hold", targets = "@A" },
  { kind = "expect", that = { at = "@A", event = "hw", where = { epoch = 1 }, synced = true }, for_ms = 5 },
]
[[schedule]]
at_s = 1.5
for_s = 2
fault = "kill"
parameters = { targets = "node:n2" }
[[operations]]
at_ms = 5
f = "write"
key = "k1"
value = "two"
node = "n1"
"""
INVENTORY = b"""
known_hosts = "hosts"
reconnect_s = 20
grace_s = 60
[defaults]
user = "u"
port = 22
key = "id"
[[hosts]]
address = "a"
workdir = "/var/tmp/k"
"""
PROPERTIES = b"""process.roles=controller,broker
node.id=1
cluster.id=c
listeners=CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
metadata.log.dir=data
"""


class NeverError(Exception):
    """Of readers that refuse no file."""


def results() -> bytes:
    check = CheckResult("exercised", Status.PASS, "all well", operations=3, statistics={"ok": 3})
    document = RunResults(
        status=Status.PASS,
        checks=(check, CheckResult(EARNED, Status.PASS, "all conditions hold")),
        statistics={},
        run="r",
        plan={"nodes": 3},
        inputs={},
        judged_with={},
    ).to_json()
    return json.dumps(document).encode()


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def evidence(folder: Path, name: str, data: bytes) -> None:
    """What is wrong with evidence is a line of its own, and no error."""
    written(folder / "n1" / name, data)
    for line in load_evidence(folder, ["n1"]).problems:
        assert "\n" not in line


def batch(folder: Path, name: str, data: bytes) -> None:
    for old in (
        folder / "batch.json",
        folder / "running" / "a.jsonl",
        folder / "results/a.parquet",
    ):
        old.unlink(missing_ok=True)
    written(folder / name, data)
    Batch(folder, BatchPlan(0, 3)).close()


READERS: dict[str, tuple[bytes, type[Exception], Callable[[Path, bytes], Any]]] = {
    "journal": (JOURNAL, HistoryError, lambda f, d: read_journal(written(f / "j", d))),
    "trace": (TRACE, StoreError, lambda f, d: evidence(f / "t", "trace.jsonl", d)),
    "log": (LOG, StoreError, lambda f, d: evidence(f / "l", "log.jsonl", d)),
    "quorum-state": (
        QUORUM_STATE,
        StoreError,
        lambda f, d: evidence(f / "q", "quorum-state.json", d),
    ),
    "final-read": (FINAL_READ, StoreError, lambda f, d: evidence(f / "f", "final-read.json", d)),
    "results": (
        results(),
        StoreError,
        lambda f, d: RunStore(written(f / "r" / "results.json", d).parent).read_results(),
    ),
    "stored plan": (
        b'{"campaign": "c", "nodes": 3}',
        StoreError,
        lambda f, d: RunStore(written(f / "p" / "plan.json", d).parent).plan(),
    ),
    "plan": (PLAN, PlanError, lambda f, d: from_document(read_document(written(f / "p.toml", d)))),
    "plan in JSON": (
        b'{"nodes": 3, "duration_s": 5, "faults": ["kill"], "schedule": []}',
        PlanError,
        lambda f, d: from_document(read_document(written(f / "p.json", d))),
    ),
    "strands": (
        STRANDS,
        PlanError,
        lambda f, d: from_document(read_document(written(f / "s.toml", d))),
    ),
    "inventory": (INVENTORY, BackendError, lambda f, d: read_inventory(written(f / "i.toml", d))),
    "stored inventory": (
        json.dumps(inventory_of(tomllib.loads(INVENTORY.decode()), ROOT).to_json()).encode(),
        BackendError,
        lambda _, d: Inventory.from_json(d.decode("utf-8", "replace")),
    ),
    "batch": (b'{"begin": 0}\n', BatchError, lambda f, d: batch(f / "b", "batch.json", d)),
    "rows of a batch": (
        b'{"seed": 1, "status": "PASS"}\n',
        BatchError,
        lambda f, d: batch(f / "br", "running/a.jsonl", d),
    ),
    "processes of a run": (
        b'{"run": "r", "role": "harness", "pid": 7, "started": "1"}\n',
        NeverError,  # what is not whole is left out
        lambda f, d: list(read_recorded(written(f / "o" / PROCESSES_FILE, d).parent)),
    ),
    "a node's own quorum-state": (QUORUM_STATE, QuorumStateError, lambda _, d: decode(d)),
    "a node's own recovery point": (
        b"0\n1\nm 0 17\n",
        NeverError,
        lambda _, d: decode_recovery_point(d),
    ),
    "a node's own trace": (
        TRACE,
        NeverError,  # it goes on behind whatever is there
        lambda f, d: JsonLinesTrace(written(f / "trace.jsonl", d)).close(),
    ),
    "a node's configuration": (
        PROPERTIES,
        ConfigError,
        lambda f, d: load_config(written(f / "server.properties", d)),
    ),
}


def tree(data: bytes) -> Any:
    return json.loads(data) if data.lstrip().startswith(b"{") else tomllib.loads(data.decode())


DOCUMENTS: dict[str, tuple[Any, type[Exception], Callable[[Any], Any]]] = {
    "plan": (tree(PLAN), PlanError, from_document),
    "strands": (tree(STRANDS), PlanError, from_document),
    "stored strands": (completed(REGRESSIONS["V01"]), PlanError, from_document),
    "results": (json.loads(results()), StoreError, RunResults.from_json),
    "inventory": (tree(INVENTORY), BackendError, lambda d: inventory_of(d, ROOT)),
    "world": (SimSettings().to_json(), PlanError, Schema(SimSettings, PlanError).read),
    "node settings": (dict(NODE_SETTINGS), SettingError, KraftSystem),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_with_other_values_is_read_or_refused(name):
    original, refusal, read = DOCUMENTS[name]

    @settings(max_examples=150, deadline=None)
    @given(document=misvalued(original))
    def each(document: Any) -> None:
        line = ""
        try:
            read(document)
        except refusal as error:
            line = str(error)
        assert "\n" not in line

    each()


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_file_is_read_or_refused(tmp_path_factory, name):
    original, refusal, read = READERS[name]
    folder = tmp_path_factory.mktemp("untrusted")

    @settings(max_examples=60, deadline=None)
    @given(data=mutated(original))
    def each(data: bytes) -> None:
        line = ""
        try:
            read(folder, data)
        except refusal as error:
            line = str(error)
        assert "\n" not in line

    each()


def test_what_readers_raise_is_expected_of_a_user():
    raised = {refusal for _, refusal, _ in READERS.values()} - {NeverError}
    of_nodes = {QuorumStateError, ConfigError}
    assert all(is_expected(refusal("one line")) for refusal in raised - of_nodes)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("inventory", INVENTORY.replace(b'"id"', b'"~nobody-here/id"'), "has no such home"),
        ("inventory", b"a = " + b"[" * 3000, "cannot be read as an inventory"),
        ("plan", b"\xff", "cannot be read as a plan: it is not UTF-8 text"),
        ("plan", b"a . 'b'." * 50_000 + b"c = 1\n", "a plan: it is nested too deeply"),
        ("plan", b"a = {" + b"'x y'." * 50_000 + b"c = 1}\n", "a plan: it is nested too deeply"),
        (
            "journal",
            JOURNAL.replace(b'"value":1', b'"value":' + b"[" * 200 + b"]" * 200),
            "line 2: no JSON .nested more than 100 deep",
        ),
        ("batch", b"\xff", "this is no batch"),
        ("batch", b"[" * 100_000, "this is no batch"),
        ("rows of a batch", b"7\n", "these are no results of seeds"),
        ("rows of a batch", b'{"seed": 1, "verdict": 7}\n', "these are no results of seeds"),
        ("rows of a batch", b'{"seed": 99999999999999999999}\n', "these are no results of seeds"),
        ("a node's own quorum-state", QUORUM_STATE.replace(b"2", b"9" * 5000), "is not JSON"),
        ("a node's own quorum-state", QUORUM_STATE.replace(b"2", b"4294967296"), "leaderEpoch"),
    ],
)
def test_what_escaped_is_refused(tmp_path, name, data, why):
    _, refusal, read = READERS[name]
    with pytest.raises(refusal, match=why):
        read(tmp_path, data)


@pytest.mark.parametrize("name", ["plan", "strands", "inventory", "results", "journal"])
def test_the_originals_are_read(tmp_path, name):
    original, _, read = READERS[name]
    read(tmp_path, original)


def test_a_plan_behind_a_byte_order_mark_is_read(tmp_path):
    original, _, read = READERS["plan"]
    read(tmp_path, codecs.BOM_UTF8 + original)
