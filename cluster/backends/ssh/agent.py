"""What runs on a host behind ssh: starts and signals processes, runs commands, keeps files.

Run as a script (standard library only), in one of these ways; FOLDER/bin holds the interpreter
that nodes run with, and FOLDER/code what it imports:

- `agent.py serve FOLDER RUN GRACE_S`: become a daemon that owns FOLDER, the run's folder on this
  host, and serves what connects to FOLDER/agent.sock. Processes are its children, so they and
  their exit codes outlive a lost connection. When nobody has been connected for GRACE_S seconds the
  harness counts as lost: the daemon then ends all that belongs to the run, as `clean` does.
- `agent.py relay FOLDER`: join standard input and output to the daemon; what ssh runs.
- `agent.py clean FOLDER RUN`: end every process with the run's label, the daemon included, take the
  run's packet filter and mounts away and remove FOLDER. Nothing else is touched. Idempotent.

A message is two lengths (JSON, payload; 4 bytes each, big-endian), an object, and bytes. Requests
carry `id` and `do`; the answer to each is kept until the requester says (`seen`) up to which number
it has all answers, so that one sent again after a lost connection is answered, not done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
from typing import Any, NoReturn

RUN_LABEL = "KRAFTPROBE_RUN"
HARNESS_LABEL = "KRAFTPROBE_HARNESS"
NAMESPACE_LABEL = "KRAFTPROBE_NAMESPACE"
SUPPORT_LABEL = "KRAFTPROBE_SUPPORT"
LENGTHS = struct.Struct(">II")
READ_BYTES_MAX = 1 << 20
MESSAGE_BYTES_MAX = 1 << 30
THROW_AWAY = ("trial-", "kraftprobe-")
"""Begin the ids of runs that only tried something and have no evidence."""
Asked = dict[str, Any]
Answer = tuple[dict[str, Any], bytes]
"""An answer's object and payload."""


def process_state(pid: int) -> tuple[str, str] | None:
    """The state letter and start time of a process, as `processes.records` writes them."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:
            return fields[0], f"{file.read()[:8]}-{fields[19]}"
    except OSError:
        return None


class RefusedError(Exception):
    """A request that cannot be done; one line."""


class Agent:
    """One run's surroundings on this host."""

    def __init__(self, folder: str, run: str) -> None:
        self.folder = folder
        own = process_state(os.getpid())
        assert own is not None, "this process lives"
        self.environment = {
            **os.environ,
            # Where a preloaded library is looked for that is named without a folder.
            "LD_LIBRARY_PATH": os.path.join(folder, "code", "cluster/backends/machine"),
            # Users without privilege often have no path to nft, and sudo may keep theirs.
            "PATH": os.pathsep.join((f"{folder}/bin", *os.get_exec_path(), "/usr/sbin", "/sbin")),
            RUN_LABEL: run,
            HARNESS_LABEL: f"{os.getpid()}:{own[1]}",
            NAMESPACE_LABEL: str(os.stat("/proc/self/ns/pid").st_ino),
        }
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        self.answers: dict[int, asyncio.Task[bytes]] = {}
        self.connections: set[asyncio.StreamWriter] = set()
        self.last_seen_s = time.monotonic()

    # -- connections -----------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take requests until the connection ends."""
        self.connections.add(writer)
        try:
            while True:
                sizes = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
                if max(sizes) > MESSAGE_BYTES_MAX:
                    break
                request = json.loads(await reader.readexactly(sizes[0]))
                payload = await reader.readexactly(sizes[1])
                self.take(request, payload, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            self.connections.discard(writer)
            self.last_seen_s = time.monotonic()
            writer.close()

    def take(self, request: Asked, payload: bytes, writer: asyncio.StreamWriter) -> None:
        """Do what is asked, unless it was asked before, and answer when it is done."""
        number = request["id"]
        for old in [number for number in self.answers if number <= request["seen"]]:
            if self.answers[old].done():
                del self.answers[old]
        if number not in self.answers:
            self.answers[number] = asyncio.ensure_future(self.answer(request, payload))

        def send(done: asyncio.Task[bytes]) -> None:
            if not done.cancelled() and not writer.is_closing():
                writer.write(done.result())

        self.answers[number].add_done_callback(send)

    async def answer(self, request: Asked, payload: bytes) -> bytes:
        """Render the answer to one request."""
        try:
            answer, data = await getattr(self, f"do_{request['do']}")(request, payload)
        except Exception as error:  # noqa: BLE001  (whatever it meets is the answer)
            answer, data = {"error": " ".join(str(error).split()) or type(error).__name__}, b""
        answer["id"] = request["id"]
        text = json.dumps(answer).encode()
        message: bytes = LENGTHS.pack(len(text), len(data)) + text + data
        return message

    # -- requests --------------------------------------------------------------------------------

    async def do_run(self, request: Asked, payload: bytes) -> Answer:
        """Run a command to its end: {command, limit_s}, its input as payload."""
        process = await asyncio.create_subprocess_exec(
            *request["command"],
            env=self.environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            both = process.communicate(payload)
            stdout, stderr = await asyncio.wait_for(both, request["limit_s"])
        except TimeoutError:
            raise RefusedError(f"no end within {request['limit_s']:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return {"exit_code": process.returncode, "split": len(stdout)}, stdout + stderr

    async def do_put(self, request: Asked, payload: bytes) -> Answer:
        """Write a file: {path, mode}."""
        path = self.inside(request["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            os.fchmod(file.fileno(), request.get("mode", 0o600))  # of an older file, too
            file.write(payload)
        return {}, b""

    async def do_start(self, request: Asked, payload: bytes) -> Answer:
        """Start a process: {command, environment, folder, output}."""
        del payload
        folder = self.inside(request["folder"])
        os.makedirs(folder, exist_ok=True)
        output = os.path.join(folder, request["output"])
        os.makedirs(os.path.dirname(output), exist_ok=True)
        # On this host the daemon's label marks what looks after a process; see __init__.
        ours = (HARNESS_LABEL, NAMESPACE_LABEL)
        asked = {n: v for n, v in request["environment"].items() if n not in ours}
        with open(output, "ab") as file:
            process = await asyncio.create_subprocess_exec(
                *request["command"],
                env={**self.environment, **asked},
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.processes[process.pid] = process
        seen = process_state(process.pid)
        return {"pid": process.pid, "started": seen[1] if seen else None}, b""

    async def do_state(self, request: Asked, payload: bytes) -> Answer:
        """Ask the kernel about a process: {pid}."""
        del payload
        process = self.processes[request["pid"]]
        seen = process_state(process.pid) if process.returncode is None else None
        dead = seen is None or seen[0] in "ZXx"
        state = "dead" if dead else "paused" if seen is not None and seen[0] in "Tt" else "running"
        return {"state": state, "exit_code": process.returncode}, b""

    async def do_signal(self, request: Asked, payload: bytes) -> Answer:
        """Signal a process that lives: {pid, number}."""
        del payload
        process = self.processes[request["pid"]]
        if process.returncode is None:  # so the number is still this child's
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, request["number"])
        return {}, b""

    async def do_wait(self, request: Asked, payload: bytes) -> Answer:
        """Wait for the end of a process: {pid}."""
        del payload
        return {"exit_code": await self.processes[request["pid"]].wait()}, b""

    async def do_read(self, request: Asked, payload: bytes) -> Answer:
        """Read the end of a file: {path, last_bytes}."""
        del payload
        with open(self.inside(request["path"]), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - request["last_bytes"]))
            return {}, file.read()

    async def do_read_from(self, request: Asked, payload: bytes) -> Answer:
        """Read a file that may be there, from an offset on, at most so much: {path, offset}."""
        del payload
        try:
            with open(self.inside(request["path"]), "rb") as file:
                file.seek(request["offset"])
                return {}, file.read(READ_BYTES_MAX)
        except FileNotFoundError:
            return {}, b""

    async def do_pack(self, request: Asked, payload: bytes) -> Answer:
        """Pack a folder: {path}."""
        del payload
        return {}, await asyncio.get_running_loop().run_in_executor(
            None, pack, self.inside(request["path"])
        )

    def inside(self, path: str) -> str:
        """Refuse paths that leave the run's folder."""
        whole = os.path.realpath(os.path.join(self.folder, path))
        if not (whole + os.sep).startswith(os.path.realpath(self.folder) + os.sep):
            raise RefusedError(f"{path} is outside of the run's folder")
        return whole


def pack(folder: str) -> bytes:
    """Pack plain files and folders; what vanishes meanwhile and sockets are left out."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(root, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with contextlib.suppress(FileNotFoundError):
                        archive.add(path, os.path.relpath(path, folder), recursive=False)
    return packed.getvalue()


async def watch(agent: Agent, folder: str, run: str, grace_s: float) -> NoReturn:
    """End everything when the harness is lost for good."""
    while True:
        await asyncio.sleep(min(1.0, grace_s / 4))
        if not agent.connections and time.monotonic() - agent.last_seen_s > grace_s:
            clean(folder, run, keep=not run.startswith(THROW_AWAY))
            os._exit(3)


async def serve(folder: str, run: str, grace_s: float) -> None:
    """Serve until killed."""
    os.umask(0o077)
    agent = Agent(folder, run)
    os.chdir(folder)  # a socket's path is at most some hundred bytes long
    await asyncio.start_unix_server(agent.serve, "agent.sock")
    await watch(agent, folder, run, grace_s)


def daemonize(folder: str) -> None:
    """Leave the parent process; returns in the daemon only, and in the starter ends the process.

    The starter waits until the daemon's socket is there.
    """
    path = os.path.join(folder, "agent.sock")
    if os.fork():
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            if os.path.exists(path):
                sys.exit(0)
            time.sleep(0.005)
        sys.exit("the agent did not start: see " + os.path.join(folder, "agent.log"))
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(os.path.join(folder, "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)


def relay(folder: str) -> None:
    """Copy bytes both ways until either side ends."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(folder)
    connection.connect("agent.sock")

    def inwards() -> None:
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        os._exit(0)

    threading.Thread(target=inwards, daemon=True).start()
    while data := connection.recv(1 << 16):
        while data:
            data = data[os.write(1, data) :]


def find_labelled(run: str, *, support: bool) -> list[int]:
    """Every live process with the run's label, this one and its parents excluded.

    `support`: those that nodes lean on, else all others.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in (os.getpid(), os.getppid()):
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                labels = file.read().split(b"\0")
        except OSError:
            continue
        leant_on = f"{SUPPORT_LABEL}=1".encode() in labels
        if f"{RUN_LABEL}={run}".encode() in labels and leant_on == support:
            found.append(int(name))
    return found


def kill_all(run: str, *, support: bool) -> None:
    """Kill the run's processes on this host, and wait for their end; see `find_labelled`."""
    own = os.readlink("/proc/self/ns/net")
    for _ in range(100):
        alive = [pid for pid in find_labelled(run, support=support) if shares_network(pid, own)]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def clean(folder: str, run: str, *, keep: bool = False) -> None:
    """See the module. `keep`: leave the files, which may be evidence still to be fetched."""
    thaw(folder)  # or what waits for a frozen disk would not die
    # A node that still ran would see its disk fail, and end itself for a reason that is no fault.
    kill_all(run, support=False)
    for point in reversed(mounts_below(folder)):
        subprocess.run(["umount", "-l", point], capture_output=True)
    kill_all(run, support=True)
    unfilter(run)
    for device in loops_below(folder):
        subprocess.run(["losetup", "-d", device], capture_output=True)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def unfilter(run: str) -> None:
    """Take the run's packet filters away, as `linkrules` and `shaping` name them."""
    table = "kraftprobe_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in run)[:200]
    if shutil.which("nft"):
        listed = subprocess.run(["nft", "list", "tables", "inet"], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            name = line.split()[-1]
            if name == table or name.startswith(table + "_shape_"):
                subprocess.run(["nft", "delete", "table", "inet", name], capture_output=True)
    chain = f"kraftprobe_{hashlib.sha256(run.encode()).hexdigest()[:12]}"
    for tool in ("iptables", "ip6tables"):
        if shutil.which(tool):
            for words in (["-D", "OUTPUT", "-j", chain], ["-F", chain], ["-X", chain]):
                subprocess.run([tool, "-w", "-t", "mangle", *words], capture_output=True)


def shares_network(pid: int, own: str) -> bool:
    """Whether a process is of this host: hosts that are namespaces share one process table."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == own
    except OSError:
        return False


def mounts_below(folder: str) -> list[str]:
    """Mount points below the folder, outer ones first."""
    whole = os.path.realpath(folder) + "/"
    with open("/proc/self/mountinfo") as file:
        points = {line.split()[4].replace("\\040", " ") for line in file}
    return sorted(point for point in points if (point + "/").startswith(whole))


def thaw(folder: str) -> None:
    """Thaw the filesystems below the folder; never one on the root's device."""
    root = os.stat("/").st_dev
    for point in mounts_below(folder):
        with contextlib.suppress(OSError):
            if os.stat(point).st_dev != root and shutil.which("fsfreeze"):
                subprocess.run(["fsfreeze", "-u", point], capture_output=True)


def loops_below(folder: str) -> list[str]:
    """Loop devices with a file in the folder."""
    whole = os.path.realpath(folder) + "/"
    found = []
    for name in os.listdir("/sys/block") if os.path.isdir("/sys/block") else ():
        with contextlib.suppress(OSError), open(f"/sys/block/{name}/loop/backing_file") as file:
            if file.read().strip().startswith(whole):
                found.append("/dev/" + name)
    return found


def main(words: list[str]) -> None:
    """See the module."""
    if words[0] == "serve":
        serving = "KRAFTPROBE_AGENT"
        if os.environ.get(serving) != "1":
            daemonize(words[1])
            # Labels show in /proc only if the process began with them.
            environment = {**os.environ, serving: "1", RUN_LABEL: words[2]}
            program = [sys.executable, "-I", "-S", os.path.abspath(__file__), *words]
            os.execve(sys.executable, program, environment)
        asyncio.run(serve(words[1], words[2], float(words[3])))
    elif words[0] == "relay":
        relay(words[1])
    elif words[0] == "clean":
        clean(words[1], words[2])


if __name__ == "__main__":
    main(sys.argv[1:])
