"""`python -m cluster.node --config FILE`: a node in the real world.

SIGUSR1 makes a leader resign, SIGUSR2 makes a node snapshot its metadata.

Exit codes: 0 after SIGTERM or SIGINT (after 5 s where the disk hangs, which a line says), 1 when an
invariant broke, a disk failed or the stored state is unusable, 2 when the configuration or the
machine does not allow a start (bad key, port taken, folder in use or not writable). Each but 0
comes with one line on stderr.

On stdout it says when it starts, leads, is fenced and the like, a line each
(`cluster.node.runtime.trace`), on stderr which settings have no effect.

Whatever goes wrong in a callback or task ends the process at once, without clean-up: what a node
that met the impossible would still do is not to be trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import random
import signal
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from cluster.node.assembly import Node, NodeSignal, Seams
from cluster.node.config import ConfigError, NodeConfig, load_config
from cluster.node.config_values import CONTROLLER_ROLE
from cluster.node.errors import reason_of
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateError
from cluster.node.log.metadata.log import CorruptLogError
from cluster.node.loggers import INFO
from cluster.node.meta_properties import formatted_cluster_id
from cluster.node.opening import FolderError, open_folders, open_metadata
from cluster.node.part_configs import raft_config
from cluster.node.ports import Trace
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.disk import FileDisk
from cluster.node.runtime.network import TcpNetwork
from cluster.node.runtime.server import TcpServer, bindings, server_limits, with_own_host
from cluster.node.runtime.trace import (
    AnnouncingTrace,
    JsonLinesTrace,
    clock_name,
    lift_file_size_limit,
    no_trace,
    start_line,
)
from cluster.node.security.settings import SecuritySettingsError
from cluster.node.security.tls import PLAINTEXT, ClientSecurity, client_security

EXIT_BROKEN: Final = 1
EXIT_USAGE: Final = 2
SHUTDOWN_TIMEOUT_MS: Final = 5000.0
_RAFT_SHUTDOWN_MS: Final = 4000.0
"""What raft may take of it; the rest is for the disk to drain."""
_LAST_REQUESTS_S: Final = 0.2
_LAST_WORDS_S: Final = 1.0
"""How long a node that gave up on its disk may take to say so."""
_SIGNALS: Final[dict[signal.Signals, NodeSignal]] = {
    signal.SIGUSR1: "resign",
    signal.SIGUSR2: "snapshot",
}
"""What an operator, or a fault, asks a running node for."""
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class _CannotStart(Exception):  # noqa: N818 - it is the message of an exit, not an error in code
    """The node cannot start here. One line, and the exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def _die(trace: Trace, error: BaseException | str, *, traced: bool = False) -> NoReturn:
    """End the process now. `traced`: the trace has its `fatal` event already."""
    reason = error if isinstance(error, str) else reason_of(error)
    place = ""
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = "".join(
            f" <- {Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames)
        )
    lift_file_size_limit()
    try:
        if not traced:
            trace("fatal", reason=reason)
    finally:
        line = " ".join(f"fatal: {reason}{place}".split())
        try:
            os.write(2, f"{line}\n".encode(errors="replace"))
        finally:  # asyncio would swallow the error of a stderr that is full, and the node live on
            os._exit(EXIT_BROKEN)


class _Process:
    """One node, its world, and the ways in which it ends."""

    def __init__(self, config: NodeConfig, mutant: str | None) -> None:
        self._config = config
        self._mutant = mutant
        self._loop = asyncio.get_running_loop()
        self._trace: Trace = AnnouncingTrace(self._open_trace(), self._say)
        self._stopped = asyncio.Event()
        self._stopping = False
        self._node: Node | None = None
        self._loop.set_debug(False)
        self._loop.set_exception_handler(self._on_unhandled)

    async def run(self) -> None:
        """Start, serve until a signal, stop. Raises _CannotStart."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        for number, what in _SIGNALS.items():
            self._loop.add_signal_handler(number, self._on_signal, what)
        seed = random.SystemRandom()
        try:
            disk = open_metadata(self._config)
            self._config = with_own_host(self._with_cluster_id(disk))
            folders = await open_folders(self._config, disk, seed)
        except FolderError as error:
            raise _CannotStart(str(error)) from error
        directory_id = folders.directory_id
        self._trace(
            "start",
            node_id=self._config.node_id,
            directory_id=directory_id,
            pid=os.getpid(),
            mutant=self._mutant,
            clock=clock_name(),
            check_quorum_timeout_ms=raft_config(self._config, directory_id).check_quorum_timeout_ms,
        )
        client_id = f"raft-client-{self._config.node_id}"
        routes = self._config.kraftprobe_routes
        to_peers = self._client_security(self._config.controller_listener_names[0])
        network = TcpNetwork(routes, client_id, security=to_peers)
        forwarding = TcpNetwork(routes, f"forwarding-{client_id}", security=to_peers)
        replication = self._replication()
        server = TcpServer(server_limits(self._config))
        seams = Seams(
            LoopClock(self._loop),
            network,
            forwarding,
            replication,
            disk,
            folders.log_dirs,
            random.Random(seed.getrandbits(64)),
            self._trace,
        )
        try:
            node = Node(self._config, directory_id, seams, self._node_died)
            await self._bind(server, node)
            node.start()
            await self._serve(server)
            self._say(start_line(self._config))
            for complaint in folders.complaints:
                self._say(complaint)
        except (CorruptLogError, QuorumStateError, OSError) as error:
            self._trace("fatal", reason=reason_of(error))
            raise _CannotStart(f"{self._config.metadata_log_dir}: {error}", EXIT_BROKEN) from error
        self._node = node
        _quiet_collector()
        await self._stopped.wait()
        if CONTROLLER_ROLE in self._config.process_roles:
            # What brokers sent before they knew of the next leader is refused, not left unread:
            # no answer at all would leave it without a known outcome.
            await asyncio.sleep(_LAST_REQUESTS_S)
        server.close()
        for folder in folders.others:
            await _drain(folder)  # what failed there went offline alone
        failure = await _drain(disk)
        if failure is not None:
            _die(self._trace, failure)
        network.close()
        forwarding.close()
        replication.close()

    def _say(self, line: str) -> None:
        """Say a line, if anybody listens: a full disk or a closed pipe does not end a node."""
        if self._node is not None and not self._node.loggers.says(INFO):
            return
        with contextlib.suppress(OSError):
            os.write(1, f"node {self._config.node_id}: {line}\n".encode())

    # --- ends ---

    def _stop(self) -> None:
        if self._node is None:
            os._exit(0)  # nothing has begun
        if self._stopping:
            return
        self._stopping = True
        timeout_s = SHUTDOWN_TIMEOUT_MS / 1000.0
        self._loop.call_later(timeout_s, self._stop_now)
        # Beside the loop, which a read of a hung disk blocks.
        guard = threading.Timer(timeout_s + _LAST_WORDS_S, os._exit, (0,))
        guard.daemon = True
        guard.start()
        self._node.shutdown(_RAFT_SHUTDOWN_MS, self._stopped.set)

    def _on_signal(self, what: NodeSignal) -> None:
        if self._node is not None and not self._stopping:
            self._node.handle_signal(what)

    def _stop_now(self) -> None:
        """End without the disk, for which raft or the drain still waits.

        What was not synced is lost, as in a kill; nothing that was acknowledged is among it.
        """
        lost = f"{self._config.metadata_log_dir}: writes did not end within "
        lost += f"{SHUTDOWN_TIMEOUT_MS / 1000.0:g} s of SIGTERM; what was not synced is lost"
        try:
            os.write(2, f"{lost}\n".encode(errors="replace"))
            self._trace("stop-timeout", timeout_ms=SHUTDOWN_TIMEOUT_MS)
        finally:
            os._exit(0)

    def _node_died(self, error: BaseException) -> None:
        _die(self._trace, error, traced=True)

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS and "socket" in context:
            return  # asyncio's accept() ran out of descriptors and tries again later
        _die(self._trace, context["message"] if error is None else error)

    # --- start ---

    def _open_trace(self) -> JsonLinesTrace | Trace:
        path = self._config.kraftprobe_trace_file
        if path is None:
            return no_trace
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return JsonLinesTrace(path)
        except OSError as error:
            raise _CannotStart(f"kraftprobe.trace.file: {path}: {error.strerror}") from error

    def _with_cluster_id(self, disk: FileDisk) -> NodeConfig:
        """Return the configuration of the cluster for which the folder was formatted."""
        config = self._config
        if config.cluster_id:
            return config
        try:
            cluster_id = formatted_cluster_id(disk)
        except OSError as error:
            raise _CannotStart(f"{config.metadata_log_dir}: {error}") from error
        if cluster_id is None:
            command = "python -m cluster.node.format --config FILE --cluster-id ID"
            raise _CannotStart(
                f"cluster.id is not given and {config.metadata_log_dir} is not formatted: {command}"
            )
        return replace(config, cluster_id=cluster_id)

    async def _bind(self, server: TcpServer, node: Node) -> None:
        try:
            await server.bind(bindings(self._config, node))
        except OSError as error:
            raise _CannotStart(f"listeners: {error.strerror or error}") from error
        except SecuritySettingsError as error:
            raise _CannotStart(str(error)) from error

    def _replication(self) -> TcpNetwork:
        """Return the network to other brokers."""
        config = self._config
        listener, client_id = config.inter_broker_listener_name, f"broker-{config.node_id}-fetcher"
        security = self._client_security(listener) if listener else PLAINTEXT
        return TcpNetwork(config.kraftprobe_broker_routes, client_id, security=security)

    def _client_security(self, listener: str) -> ClientSecurity:
        try:
            return client_security(self._config.security[listener])
        except SecuritySettingsError as error:
            raise _CannotStart(str(error)) from error

    async def _serve(self, server: TcpServer) -> None:
        try:
            await server.serve()
        except OSError as error:
            raise _CannotStart(f"listeners: {error.strerror or error}") from error


async def _drain(disk: FileDisk) -> OSError | None:
    """Wait until all is on disk. A disk that stalls is left behind by `_stop_now`."""
    drained: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.drain(drained.set_result)
    return await drained


def _quiet_collector() -> None:
    """Keep the cyclic collector off everything that lives as long as the node does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def _run(config: NodeConfig, mutant: str | None) -> None:
    await _Process(config, mutant).run()


CONFIG_OPTION: Final = click.option(
    "--config", "config_file", required=True, type=click.Path(path_type=Path)
)


def run(config_file: Path, mutant: str | None = None) -> None:
    """Run a node until it ends. `mutant` is the id that its trace gives of its faulty code."""
    try:
        config = load_config(config_file)
        if config.without_effect:
            ignored = ", ".join(config.without_effect)
            click.echo(f"{config_file}: without effect on this node: {ignored}", err=True)
        asyncio.run(_run(config, mutant))
    except _CannotStart as error:
        click.echo(f"{config_file}: {error}", err=True)
        # At once: a disk or a peer may be stuck in the middle of something.
        sys.stderr.flush()
        os._exit(error.exit_code)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_USAGE)


@click.command()
@CONFIG_OPTION
def main(config_file: Path) -> None:
    """Run one KRaft node."""
    run(config_file)
