"""How Apache ZooKeeper is run: CONTROLLER is the port of elections, QUORUM that of a leader."""

import asyncio
import re
from pathlib import Path

from cluster.systems.base import Damageable
from cluster.systems.kafka.installation import java
from cluster.systems.kinds import SettingError, SystemKind
from cluster.systems.plain import PlainLayout, PlainSystem, usual_faults
from kraftprobe_zookeeper.fetch import home

OPTIONS = {
    "version": "a release that `kraftprobe-zookeeper fetch VERSION` has brought",
    "force_sync": "yes (default), or no: writes are answered before they are synced",
}
JVM = (
    *("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    "-Dzookeeper.preAllocSize=1024",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # Or each question is logged.
    "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=warn",
)


class ZooKeeper(PlainSystem):
    name = "zookeeper"
    ports = ("QUORUM",)
    stop_timeout_s = 10.0

    def __init__(self, request):
        self._libraries = libraries(request)
        self._java = java()
        self._force_sync = request.options.get("force_sync", "yes")
        self.reads = (self._libraries, Path(self._java).resolve().parent.parent)

    async def ready(self, connect, ports):
        return await four_letters(connect, ports["CLIENT"], b"ruok") == "imok"

    def damageable(self, files):
        logs = [path for path in files if path.startswith("version-2/log.")]
        last = max(logs, key=lambda path: int(path.rpartition(".")[2], 16), default=None)
        return last and Damageable(last, transactions)

    def files(self, node):
        members = zip(node.brokers, node.ports["QUORUM"], node.voters, strict=True)
        servers = "\n".join(
            f"server.{client.node_id}={quorum.host}:{quorum.port}:{election.port};"
            f"{client.host}:{client.port}"
            for client, quorum, election in members
        )
        return {
            "zoo.cfg": f"""
tickTime=500
initLimit=20
syncLimit=6
dataDir={self.data_folder(node.folder)}
admin.enableServer=false
4lw.commands.whitelist=*
electionPortBindRetry=0
{servers}
"""
        }

    def command(self, node):
        data = self.data_folder(node.folder)
        program = (self._java, *JVM, f"-Dzookeeper.forceSync={self._force_sync}")
        program += ("-cp", f"{self._libraries}/*")
        program += ("org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{node.folder}/zoo.cfg")
        # Not in `files`: the data folder is a disk of its own once it can fail.
        script = f'mkdir -p {data} && echo {node.node_id} > {data}/myid && exec "$@"'
        return ("/bin/sh", "-c", script, "sh", *program)


def transactions(log):
    """Find the middle of each but the last: behind 16 bytes come checksum, size, bytes and a B."""
    found, position = [], 16
    while size := int.from_bytes(log[position + 8 : position + 12]):
        found.append(position + 12 + size // 2)
        position += 13 + size
    return found[:-1]


def libraries(request):
    version = request.options.get("version", "")
    folder = home(version) / "libs"
    if not (folder / f"zookeeper-{version}.jar").is_file():
        raise SettingError(
            f"Apache ZooKeeper {version} is not there: kraftprobe-zookeeper fetch {version}"
        )
    return folder


async def four_letters(connect, endpoint, word):
    reader, writer = await asyncio.open_connection(sock=await connect(endpoint))
    try:
        writer.write(word)
        return (await reader.read()).decode()
    finally:
        writer.close()


async def ask_leader(connect, endpoint, bound_ms):
    """A node knows only whether it leads itself; the epoch is the upper half of its last zxid."""
    try:
        async with asyncio.timeout(bound_ms / 1000):
            state = await four_letters(connect, endpoint, b"srvr")
            if "Mode: leader" not in state:
                return None
            conf = await four_letters(connect, endpoint, b"conf")
    except (OSError, TimeoutError):
        return None
    zxid = re.search(r"Zxid: 0x([0-9a-f]+)", state)
    server = re.search(r"serverId=(\d+)", conf)
    # One that steps down, or ends, between two answers gives no whole second one.
    return (int(server[1]), int(zxid[1], 16) >> 32) if zxid and server else None


def check(request):
    if request.node_settings:
        raise SettingError("node_settings: ZooKeeper has none here")
    if request.options.get("force_sync", "yes") not in {"yes", "no"}:
        raise SettingError("system_options.force_sync: yes or no")


SYSTEM = SystemKind(
    name=ZooKeeper.name,
    title="Apache ZooKeeper",
    layout=PlainLayout(),
    check=check,
    create=ZooKeeper,
    versions=lambda request: {ZooKeeper.name: request.options.get("version", "?")},
    metadata_quorum=False,
    ask_leader=ask_leader,
    leader_at="CLIENT",
    scripted={},
    traced=frozenset(),
    options=OPTIONS,
    workloads=frozenset({"zookeeper-set", "zookeeper-register"}),
    backends=frozenset({"local", "netns", "docker"}),
    faults=usual_faults(announces=True, damages={"bit-flip"}),
)
