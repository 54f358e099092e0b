"""How Kraftprobe runs nodes of Apache ZooKeeper.

CLIENT is the client port, CONTROLLER that of elections, QUORUM the one at which a leader serves its
followers.
"""

import asyncio
import re
from pathlib import Path

from cluster.systems.kafka.installation import java
from cluster.systems.kinds import SettingError, SystemKind
from cluster.systems.plain import PlainLayout, PlainSystem, usual_faults
from kraftprobe_zookeeper.fetch import home

OPTIONS = {
    "version": "a release that `kraftprobe-zookeeper fetch VERSION` has brought",
    "force_sync": "yes (default), or no: writes are answered before they are synced",
}
JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOGGING = {
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd HH:mm:ss,SSS",
    "log.org.apache.zookeeper.server.NIOServerCnxn": "warn",  # or each question is logged
}


class ZooKeeper(PlainSystem):
    name = "zookeeper"
    ports = ("QUORUM",)
    stop_timeout_s = 10.0
    stop_codes = frozenset({0, -15, 143})

    def __init__(self, request):
        self._libraries = libraries(request)
        self._java = java()
        self._force_sync = request.options.get("force_sync", "yes")
        self.reads = (self._libraries, Path(self._java).resolve().parent.parent)

    async def ready(self, connect, ports):
        return await four_letters(connect, ports["CLIENT"], b"ruok") == "imok"

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
forceSync={self._force_sync}
preAllocSize=1024
electionPortBindRetry=0
{servers}
"""
        }

    def command(self, node):
        data = self.data_folder(node.folder)
        program = (self._java, *JVM, f"-Dzookeeper.forceSync={self._force_sync}")
        program += tuple(f"-Dorg.slf4j.simpleLogger.{key}={said}" for key, said in LOGGING.items())
        program += ("-Dzookeeper.preAllocSize=1024", "-cp", f"{self._libraries}/*")
        program += ("org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{node.folder}/zoo.cfg")
        # Not in `files`: the data folder is a disk of its own once it can fail.
        script = f'mkdir -p {data} && echo {node.node_id} > {data}/myid && exec "$@"'
        return ("/bin/sh", "-c", script, "sh", *program)


def libraries(request):
    if "version" not in request.options:
        raise SettingError("system_options.version: say which release, such as version=3.9.4")
    version = request.options["version"]
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
    options=OPTIONS,
    workloads=frozenset({"zookeeper-set", "zookeeper-register"}),
    backends=frozenset({"local", "netns", "docker"}),
    faults=usual_faults(announces=True),
)
