"""A small Kafka of partitions and transactions, which makes random histories of workload's form.

One step at a time of some client or of the coordinator, so that operations overlap, markers are
written late and one partition after the other, and consumers read between them. A fault is planted
in one transaction; `planted` says whether the run came to it.
"""

from tests.checkers.histories import FAIL, INFO, OK, Planted, op

KEYS = ("x", "y", "z")


class Partitions(Planted):
    """Logs, decisions and markers."""

    def __init__(self, random, fault=None):
        super().__init__(random, fault)
        self.logs = {key: [] for key in KEYS}
        """Partition -> (value, transaction), in the order of offsets."""
        self.markers = {}
        """(transaction, partition) -> whether it committed there."""
        self.to_write = []
        self.values = 0

    # --- the coordinator ---

    def decide(self, transaction, commit):
        for key in KEYS:
            if any(owner == transaction for _, owner in self.logs[key]):
                self.to_write.append((transaction, key, commit))

    def write_marker(self):
        transaction, key, commit = self.to_write.pop(self.random.randrange(len(self.to_write)))
        self.markers[transaction, key] = commit

    # --- a consumer ---

    def stable(self, key):
        log = self.logs[key]
        is_open = (n for n, (_, owner) in enumerate(log) if (owner, key) not in self.markers)
        return next(is_open, len(log))

    def committed(self, key):
        log = self.logs[key][: self.stable(key)]
        return [value for value, owner in log if self.markers[owner, key]]

    def everything(self, key):
        return [value for value, _ in self.logs[key]]

    # --- clients: generators, of which each step is an instant ---

    def transaction(self, process):
        random, index = self.random, len(self.operations)
        kind = random.choice(["txn", "txn", "txn", "abort", "zombie"])
        reads = random.sample(KEYS, random.randint(0, 1))
        keys = [random.choice(KEYS) for _ in range(random.randint(1, 3))]
        steps = [["r", key, None] for key in reads]
        for key in keys:
            self.values += 1
            steps.append(["append", key, self.values])
        outcome = FAIL if kind != "txn" else random.choice([OK, OK, OK, INFO])
        commit = outcome is OK or (outcome is INFO and random.random() < 0.5)
        self.operations.append(None)
        begin, done = self.now, list(steps)
        yield
        for n, (f, key, value) in enumerate(steps):
            if f == "r":
                done[n] = ["r", key, self.committed(key)]
            else:
                self.logs[key].append((value, index))
                if commit and self.hits("duplicate"):
                    self.logs[key].append((value, index))
            yield
        outcome = self.end(index, kind, outcome, commit, set(keys))
        yield
        fields = {"input": steps, "type": outcome, "process": process}
        fields["output"] = done if outcome is OK else None
        self.operations[index] = op(index, kind, (begin, self.now), **fields)

    def end(self, index, kind, outcome, commit, keys):
        if kind == "zombie" and self.hits("zombie"):
            outcome, commit = OK, True
        elif outcome is FAIL and self.hits("aborted-read"):
            commit = True
        elif outcome is OK and self.hits("lost"):
            commit = False
        torn = len(keys) > 1 and outcome is not FAIL and self.hits("torn")
        self.decide(index, commit)
        if torn:
            n = len(self.to_write) - 1
            self.to_write[n] = (*self.to_write[n][:2], not commit)
        return outcome

    def reading(self, process):
        index, begin = len(self.operations), self.now
        dirty = self.random.random() < 0.4
        self.operations.append(None)
        yield
        steps = []
        for key in self.random.sample(KEYS, self.random.randint(1, 3)):
            shown = self.everything(key) if dirty else self.committed(key)
            fault = "skipped" if dirty else "reordered"
            ends = {shown[0], shown[-1]} if shown else set()
            if len(ends) > 1 and ends.issubset(self.committed(key)) and self.hits(fault):
                shown = shown[1:] if dirty else [*shown[1:], shown[0]]
            steps.append(["r", key, shown])
            yield
        asked = [["r", key, None] for _, key, _ in steps]
        f = "read-uncommitted" if dirty else "read"
        times = (begin, self.now)
        self.operations[index] = op(index, f, times, input=asked, output=steps, process=process)

    # --- a run ---

    def run(self, clients=3, operations=14):
        active, begun = {}, 0
        while active or begun < operations or self.to_write:
            self.now += 1
            free = [n for n in range(clients) if n not in active]
            if free and begun < operations and self.random.random() < 0.4:
                begin = self.random.choice([self.transaction, self.transaction, self.reading])
                active[free[0]] = begin(process=begun)
                begun += 1
                next(active[free[0]])
            elif self.to_write and self.random.random() < 0.3:
                self.write_marker()
            elif active:
                client = self.random.choice(sorted(active))
                if next(active[client], "done") == "done":
                    del active[client]
        for key in KEYS:
            self.now += 2
            index, shown = len(self.operations), self.committed(key)
            times = (self.now, self.now + 1)
            step = ["r", key, shown]
            asked = [["r", key, None]]
            self.operations.append(
                op(index, "read-all", times, input=asked, output=[step], process=index)
            )
        return self.operations
