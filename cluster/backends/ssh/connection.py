"""One ssh connection to a host, made by paramiko; everything here blocks and belongs off the loop.

The host's key must be known: a changed key is always refused, an unknown one unless the user's
inventory says that new ones are accepted. Every failure is one line that names the host.
"""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path

import paramiko

from cluster.backends.abilities import Completed
from cluster.backends.ssh.inventory import HostEntry, Inventory
from cluster.backends.terms import BackendError

CONNECT_TIMEOUT_S = 8.0
_EXECUTE_TIMEOUT_S = 60.0
_KEEPALIVE_S = 5
_KEYS_LOCK = threading.Lock()
"""Held while a known_hosts file is read or written: hosts are connected to in parallel."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False  # what goes wrong is reported in our one line


class NotConnectedError(BackendError):
    """No connection; `final` when trying again cannot help (keys, users)."""

    def __init__(self, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.final = final


class _UnknownKey(Exception):  # noqa: N818  (what happened)
    pass


class _Ask(paramiko.MissingHostKeyPolicy):
    """Refuse unknown host keys, or believe and keep them when the user has said so."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002  (contract)
        hostname: str,
        key: paramiko.PKey,
    ) -> None:
        if not self._inventory.accept_new_host_keys:
            raise _UnknownKey(f"{key.get_name()} {key.fingerprint}")
        with _KEYS_LOCK:
            path = Path(self._inventory.known_hosts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


def connect(entry: HostEntry, inventory: Inventory, node: str) -> paramiko.SSHClient:
    """Connect and authenticate. Raises NotConnectedError."""
    host = f"host {node} ({entry.where})"
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_Ask(inventory))
    try:
        with _KEYS_LOCK:
            if Path(inventory.known_hosts).exists():
                client.load_host_keys(inventory.known_hosts)
        raw = socket.create_connection((entry.address, entry.port), CONNECT_TIMEOUT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.connect(
            entry.address,
            entry.port,
            entry.user,
            key_filename=entry.key,
            allow_agent=entry.key is None,
            look_for_keys=entry.key is None,
            sock=raw,
            timeout=CONNECT_TIMEOUT_S,
            banner_timeout=CONNECT_TIMEOUT_S,
            auth_timeout=CONNECT_TIMEOUT_S,
        )
        transport = client.get_transport()
        assert transport is not None, "connected"
        transport.set_keepalive(_KEEPALIVE_S)
    except Exception as error:
        client.close()
        raise _explain(error, host, entry, inventory) from error
    return client


def _explain(
    error: Exception, host: str, entry: HostEntry, inventory: Inventory
) -> NotConnectedError:
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, _UnknownKey):
        return NotConnectedError(
            f"{host}: its key ({reason}) is not in {inventory.known_hosts}; compare it, then: "
            f"ssh-keyscan -p {entry.port} {entry.address} >> {inventory.known_hosts}",
            final=True,
        )
    if isinstance(error, paramiko.BadHostKeyException):
        return NotConnectedError(
            f"{host}: its key is not the one in {inventory.known_hosts}: another host, "
            "or an attack",
            final=True,
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        reason = f"the key {entry.key} has a pass phrase: load it into an agent and name no key"
        return NotConnectedError(f"{host}: {reason}", final=True)
    if isinstance(error, paramiko.AuthenticationException):
        with_what = "the agent's and ~/.ssh's keys" if entry.key is None else entry.key
        reason = f"it does not let {entry.user} in with {with_what}"
        return NotConnectedError(f"{host}: {reason}", final=True)
    if isinstance(error, FileNotFoundError):
        return NotConnectedError(f"{host}: {error.filename}: no such file", final=True)
    if isinstance(error, socket.gaierror):
        return NotConnectedError(f"{host}: there is no such address: {reason}", final=True)
    if isinstance(error, TimeoutError):
        reason = f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return NotConnectedError(f"{host} cannot be reached: {reason}", final=False)


def execute(client: paramiko.SSHClient, command: str, stdin: bytes = b"") -> Completed:
    """Run a shell's line on a channel of its own and wait for it. Raises BackendError."""
    try:
        channel = open_channel(client, command)
        with channel:
            channel.settimeout(_EXECUTE_TIMEOUT_S)
            channel.sendall(stdin)
            channel.shutdown_write()
            stdout = _read(channel.recv)
            stderr = _read(channel.recv_stderr)
            return Completed(channel.recv_exit_status(), stdout, stderr)
    except (paramiko.SSHException, OSError, EOFError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BackendError(f"a command over ssh failed: {reason}") from error


def open_channel(client: paramiko.SSHClient, command: str) -> paramiko.Channel:
    """Start a shell's line; its streams stay open. Raises SSHException, OSError, EOFError."""
    transport = client.get_transport()
    if transport is None or not transport.is_active():
        raise EOFError("the connection is lost")
    channel = transport.open_session(timeout=CONNECT_TIMEOUT_S)
    channel.exec_command(command)
    return channel


def _read(receive: object) -> bytes:
    assert callable(receive), "a method of a channel"
    parts = []
    while part := receive(1 << 16):
        parts.append(part)
    return b"".join(parts)
