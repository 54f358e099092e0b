"""How Kraftprobe runs nodes of etcd: clients at CLIENT, peers at CONTROLLER."""

import asyncio
import re
import shlex
import subprocess

from cluster.systems.base import Damageable
from cluster.systems.kinds import SettingError, SystemKind
from cluster.systems.plain import PlainLayout, PlainSystem, usual_faults
from kraftprobe_etcd.client import Http
from kraftprobe_etcd.fetch import program

OPTIONS = {"fsync": "yes (default), or no: --unsafe-no-fsync, which says what it does"}
NO_ANSWER = (EOFError, ValueError, LookupError)  # of a member that ended amid it


def url(end):
    return f"http://{end.host}:{end.port}"


class Etcd(PlainSystem):
    name = "etcd"
    stop_timeout_s = 10.0
    mapped = ("db",)  # bbolt reads its file through a mapping

    def __init__(self, request):
        self._program = find()
        self._unsafe = ("--unsafe-no-fsync",) if request.options.get("fsync") == "no" else ()
        self.reads = (self._program.parent,)

    async def ready(self, connect, ports):
        # At the peers' port, which a member opens without a quorum; clients' ports open later.
        http = await Http.connect(connect, ports["CONTROLLER"])
        try:
            return "etcdserver" in await http.get("/version")
        except NO_ANSWER:
            return False
        finally:
            http.close()

    def damageable(self, files):
        last = max((path for path in files if path.endswith(".wal")), default=None)
        return last and Damageable(last, entries)

    def command(self, node):
        data = str(self.data_folder(node.folder))
        peers = ",".join(f"n{end.node_id}={url(end)}" for end in node.voters)
        # As a kernel does in the end: or no member would be left, and nothing that could answer.
        back = f'(sleep 3; find {shlex.quote(data)} -type f -exec sync {{}} +) & exec "$@"'
        return (
            *(("/bin/sh", "-c", back, "sh") if self._unsafe else ()),
            *(str(self._program), "--name", node.name, "--data-dir", data),
            *("--listen-client-urls", url(node.client)),
            *("--advertise-client-urls", url(node.client)),
            *("--listen-peer-urls", url(node.controller)),
            *("--initial-advertise-peer-urls", url(node.controller)),
            *("--initial-cluster", peers, "--initial-cluster-token", node.run_id),
            *self._unsafe,
        )


def entries(log):
    """Find the middle of each record that is long enough to be an entry, but the last."""
    found, position = [], 0
    while frame := int.from_bytes(log[position : position + 8], "little"):
        size = frame & (1 << 56) - 1  # above it: how many bytes of padding
        found += [position + 8 + size // 2] if size >= 64 else []
        position += 8 + size + (frame >> 56 & 7)
    return found[:-1]


def find():
    if found := program():
        return found.resolve()
    raise SettingError("there is no etcd: kraftprobe-etcd fetch, or install it")


def versions(_):
    said = subprocess.run([find(), "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"etcd Version: (\S+)", said)
    return {Etcd.name: found[1] if found else "unknown"}


async def ask_leader(connect, endpoint, bound_ms):
    try:
        async with asyncio.timeout(bound_ms / 1000):
            http = await Http.connect(connect, endpoint)
            try:
                status = await http.post("/v3/maintenance/status", {})
                members = (await http.post("/v3/cluster/member/list", {})).get("members", [])
            finally:
                http.close()
        name = {member["ID"]: member.get("name") for member in members}.get(status.get("leader"))
        return (int(name[1:]), int(status["raftTerm"])) if name else None
    except (OSError, *NO_ANSWER):
        return None


def check(request):
    if request.node_settings:
        raise SettingError("node_settings: etcd has none here")
    if request.options.get("fsync", "yes") not in {"yes", "no"}:
        raise SettingError("system_options.fsync: yes or no")


SYSTEM = SystemKind(
    name=Etcd.name,
    title="etcd",
    layout=PlainLayout(),
    check=check,
    create=Etcd,
    versions=versions,
    metadata_quorum=False,
    ask_leader=ask_leader,
    leader_at="CLIENT",
    options=OPTIONS,
    workloads=frozenset({"etcd-set", "etcd-register", "etcd-register-serializable"}),
    backends=frozenset({"local", "netns", "docker"}),
    # The id of a cluster is a hash of its members' addresses, so all must use the same.
    faults=usual_faults(announces=True, damages={"bit-flip"}),
)
