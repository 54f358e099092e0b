"""A system with a small echo program as its node, so that backends are tested without the real one."""

import json
from pathlib import Path

from cluster.node.security.tls import PLAINTEXT
from cluster.systems.base import System

PROGRAM = Path(__file__).with_name("fake_node.py")


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class FakeSystem(System):
    name = "fake"
    ping = frame(b"ping")
    client_security = PLAINTEXT
    stop_timeout_s = 120.0
    ready_timeout_s = 120.0
    ready_listeners = ("CONTROLLER", "CLIENT")

    def __init__(self, mode: str = "") -> None:
        self.mode = mode

    def listeners(self, node_id):
        return self.ready_listeners

    def files(self, node):
        listeners = [(node.client.host, node.client.port)]
        listeners += [(node.controller.host, node.controller.port)]
        config = {"listeners": listeners, "mode": self.mode}
        return {"config.json": json.dumps(config)}

    def command(self, node):
        program = (node.interpreter, "-I", "-S", *self.words(node.folder))
        if self.mode in ("wrapped", "escaped", "titled"):
            apart = "setsid " if self.mode == "escaped" else ""
            return ("sh", "-c", f'{apart}"$@" & wait', "sh", *program)
        return program

    def words(self, folder):
        return (str(PROGRAM), str(folder / "config.json"))

    def environment(self, node):
        return {}

    def data_folder(self, folder):
        return folder

    def log_dirs(self, folder):
        return (self.data_folder(folder),)

    def log_folder(self, folder):
        return folder
