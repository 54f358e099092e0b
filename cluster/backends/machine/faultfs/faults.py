"""The faults that are in force in one filesystem, and the gate that every change passes.

Thread-safe. A call that waits at the gate is let go when the fault is cleared, and refused when
its process has been killed meanwhile: the kernel lets a process die only when its call has come
back.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Call = Literal["write", "fsync", "grow", "create", "removal"]
"""What asks to pass: a write, an fsync, a write that makes a file longer, a new file, a file that
goes or gets another name."""

HOLD = "hold"
"""Fsyncs wait, writes do not: how the ability lets something pile up before a power loss. With
`torn` they wait only while there is a write that can be torn, so that the next ones come."""

STALL, SLOW, FULL = "stall", "slow", "full"
FSYNC_ERROR, WRITE_ERROR = "fsync-error", "write-error"

_LOOK_EVERY_S = 0.02
_SIGKILL_BIT = 1 << 8


@dataclass(slots=True)
class _Active:
    """One fault in force."""

    delay_s: float
    left: int
    """How many errors are to come; negative: without end."""
    torn: bool = False
    hits: int = 0


class Faults:
    """See the module. Names are those of `cluster.backends.abilities.DiskFault`, and HOLD."""

    def __init__(self, tearable: Callable[[], bool] = bool) -> None:
        """`tearable`: whether a write can be torn; it is asked without a lock of this object."""
        self._tearable = tearable
        self._changed = threading.Condition()
        self._active: dict[str, _Active] = {}
        self._ended = False

    def set(self, name: str, parameters: Mapping[str, float]) -> None:
        """Put a fault in force, anew when it is already."""
        delay_s = float(parameters.get("delay_ms", 0)) / 1000
        count = int(parameters.get("count", 0)) or -1
        with self._changed:
            self._active[name] = _Active(delay_s, count, torn=bool(parameters.get("torn")))
            self._changed.notify_all()

    def clear(self, name: str | None = None) -> None:
        """End one fault, or all."""
        with self._changed:
            for fault in [name] if name else list(self._active):
                self._active.pop(fault, None)
            self._changed.notify_all()

    def end(self) -> None:
        """Let everything pass from now on, as the filesystem is going away."""
        self.clear()
        self._ended = True

    def hits(self) -> dict[str, int]:
        """Return how many calls each active fault has hit."""
        with self._changed:
            return {name: active.hits for name, active in sorted(self._active.items())}

    def pass_gate(self, call: Call, caller: int, *, own: bool) -> None:
        """Wait, or raise OSError, as the faults in force say.

        `caller`: the calling thread's number. `own`: the toolkit's own file, which measures waits
        and a full disk, but must not use up errors that are meant for the node.
        """
        if call not in ("create", "removal"):
            self._wait_stall(call, caller, own=own)
            self._delay(caller, own=own)
        if call in ("grow", "create"):
            self._refuse(FULL, errno.ENOSPC, own=own)
        if not own:
            if call in ("write", "grow"):
                self._refuse(WRITE_ERROR, errno.EIO, own=own)
            if call == "fsync":
                self._refuse(FSYNC_ERROR, errno.EIO, own=own)

    def _wait_stall(self, call: Call, caller: int, *, own: bool) -> None:
        counted = False
        while True:
            held = self._active.get(HOLD) if call == "fsync" else None
            if held is not None and held.torn and not self._tearable():
                held = None
            with self._changed:
                fault = self._active.get(STALL)
                if fault is None and held is self._active.get(HOLD):
                    fault = held
                if fault is None or self._ended:
                    return
                fault.hits += not (counted or own)
                counted = True
                self._changed.wait(_LOOK_EVERY_S)
            _refuse_killed(caller)

    def _delay(self, caller: int, *, own: bool) -> None:
        with self._changed:
            fault = self._active.get(SLOW)
            if fault is None:
                return
            fault.hits += not own
            until_s = time.monotonic() + fault.delay_s
        while (left_s := until_s - time.monotonic()) > 0:
            with self._changed:
                if self._active.get(SLOW) is not fault:
                    return
                self._changed.wait(min(left_s, _LOOK_EVERY_S))
            _refuse_killed(caller)

    def _refuse(self, name: str, number: int, *, own: bool) -> None:
        with self._changed:
            fault = self._active.get(name)
            if fault is None or fault.left == 0:
                return
            if not own:
                fault.hits += 1
                fault.left -= fault.left > 0
        raise OSError(number, os.strerror(number))


def _refuse_killed(caller: int) -> None:
    """Raise where the calling thread has a SIGKILL waiting for it, or is gone."""
    if caller <= 0:
        return  # of another process namespace: it cannot be looked at
    try:
        status_of = f"/proc/{caller}/status"
        with open(status_of, encoding="ascii", errors="replace") as status:  # noqa: PTH123  (hot)
            for line in status:
                if line.startswith(("SigPnd:", "ShdPnd:")) and int(line[7:], 16) & _SIGKILL_BIT:
                    break
            else:
                return
    except (FileNotFoundError, ProcessLookupError):
        pass
    raise OSError(errno.EINTR, "the caller was killed")
