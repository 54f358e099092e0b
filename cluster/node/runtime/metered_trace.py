"""The trace that a node's metrics are counted from; few nodes need prometheus-client beside it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from cluster.node.ports import Trace
from cluster.node.runtime.window import Window

_NO_NODE: Final = -1


class MeteredTrace:
    """A `Trace` that counts what it passes on."""

    def __init__(self, trace: Trace, now_s: Callable[[], float] = time.monotonic) -> None:
        self._trace = trace
        self._now_s = now_s
        now = now_s()
        self.commit_ms = Window(now)
        self.election_ms = Window(now)
        self.appended = Window(now)
        self.fetched = Window(now)
        self.events: Counter[str] = Counter()
        self.state = "Unattached"
        self.voted_id = _NO_NODE
        self._election_began_s: float | None = None

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Pass an event on, then count it."""
        self._trace(event, **fields)
        self.events[event] += 1
        if event == "append":
            records = fields["last_offset"] - fields["base_offset"] + 1
            window = self.appended if fields["role"] == "leader" else self.fetched
            window.record(records, self._now_s())
        elif event == "commit":
            self.commit_ms.record(fields["latency_ms"], self._now_s())
        elif event == "state":
            self._enter(fields["state"])
            self.voted_id = fields["voted_id"]

    def _enter(self, state: str) -> None:
        """Time an election: from the candidacy to any leader (KafkaRaftMetrics)."""
        self.state = state
        if state == "Candidate":
            if self._election_began_s is None:
                self._election_began_s = self._now_s()
        elif state in {"Leader", "Follower"} and self._election_began_s is not None:
            now = self._now_s()
            self.election_ms.record((now - self._election_began_s) * 1000.0, now)
            self._election_began_s = None
