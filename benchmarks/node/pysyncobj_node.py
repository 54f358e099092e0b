"""One PySyncObj replica, driven over its standard input; the peer of the benchmark.

PySyncObj never syncs its journal. To be a peer in durability each append is followed by an msync.
Load comes from threads inside the leader's process: its users call it so, and it spares the peer
the client's hop over TCP that the other side of the benchmark pays.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import pysyncobj.journal
from pysyncobj import SyncObj, SyncObjConf, SyncObjException, replicated


def _sync_each_append() -> None:
    journal = pysyncobj.journal.FileJournal
    add = journal.add

    def durable_add(self, command, idx, term):
        add(self, command, idx, term)
        self.flush()

    journal.add = durable_add


class Store(SyncObj):
    def __init__(self, own: str, others: list[str], journal: str) -> None:
        conf = SyncObjConf(
            journalFile=journal,
            autoTickPeriod=0.001,  # its defaults batch for 100 ms: tuned for latency here
            appendEntriesPeriod=0.005,
            raftMinTimeout=1.0,
            raftMaxTimeout=2.0,
            connectionRetryTime=0.2,
            appendEntriesUseBatch=True,
        )
        super().__init__(own, others, conf)
        self.values: dict[str, str] = {}

    @replicated
    def put(self, key, value):
        self.values[key] = value


def load(store: Store, clients: int, seconds: float) -> list[float]:
    latencies_ms: list[float] = []
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        sequence = 0
        while (before := time.monotonic()) < end:
            sequence += 1
            try:
                store.put(f"bench.{number}", f"value-{sequence:010d}", sync=True, timeout=5)
            except SyncObjException:
                continue
            latencies_ms.append((time.monotonic() - before) * 1000)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies_ms


def insist(store: Store) -> float:
    """Write until one is acknowledged; returns the monotonic time of that moment."""
    while True:
        try:
            store.put("failover", "x", sync=True, timeout=1)
        except SyncObjException:
            time.sleep(0.005)
        else:
            return time.monotonic()


def main() -> None:
    own, journal, *others = sys.argv[1:]
    _sync_each_append()
    store = Store(own, others, journal)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "leader":
                leader = store._getLeader()
                answer = {"leader": None if leader is None else str(leader)}
            case "load":
                answer = {"latencies_ms": load(store, command["clients"], command["seconds"])}
            case "insist":
                answer = {"at_s": insist(store)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
