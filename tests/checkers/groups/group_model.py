"""A small group coordinator, which makes random histories of workload `groups`' form.

One step at a time of some client or of the coordinator, so that operations overlap and members learn
late of a rebalance. A fault is planted once; `planted` says whether the run came to it.
"""

from tests.checkers.histories import FAIL, INFO, OK, Planted, op

KEYS = ("x", "y", "z")


class Client:
    """A worker: the member that it is, and the one that it was."""

    def __init__(self, number):
        self.number = number
        self.instance = f"i{number}" if number == 0 else None
        self.member = None
        self.generation = -1
        self.positions = {}
        self.former = None

    def forget(self):
        if self.member is not None:
            self.former = (self.member, self.generation, dict(self.positions))
        self.member = None


class Group(Planted):
    """Logs, committed offsets and the coordinator's view of the members."""

    def __init__(self, random, fault=None):
        super().__init__(random, fault)
        self.logs = {key: [] for key in KEYS}
        self.offsets = dict.fromkeys(KEYS, -1)
        self.appended = []
        """Positions that are committed once they are replicated, before a new generation is."""
        self.acknowledged = {key: [] for key in KEYS}
        """Partition -> (offset, when it was acknowledged)."""
        self.generation = 0
        self.members = {}
        """Number of a client -> id of its member, as the coordinator knows it."""
        self.assignment = {}
        """Partition -> numbers of the clients that have it."""
        self.given = {}
        """Partition -> (client, generation, when it had joined) of its last owner."""
        self.polled = {}
        """Partition -> where the polls of all members end."""
        self.dropped = {}
        """Partition -> offset of a record that no poll shows."""
        self.owners = {}
        """(generation, partition) -> clients that had joined with it."""
        self.highest = (0, 0)
        """Generation of a join that has ended, and when."""
        self.ids = 0

    # --- the coordinator ---

    def replicate(self):
        for positions in self.appended:
            self.offsets.update(positions)
        self.appended = []

    def rebalance(self, clients):
        self.replicate()
        self.generation += 1
        if self.fault == "generation-back" and self.generation > 3 and self.random.random() < 0.1:
            self.generation -= 3
        alive = [c for c in clients if self.random.random() < 0.8] or [clients[0]]
        self.members = {c.number: self.new_id() for c in alive}
        self.assignment = {key: [self.random.choice(alive).number] for key in KEYS}
        if self.fault == "two-owners" and self.random.random() < 0.2:
            self.assignment["x"] = [each.number for each in alive[:2]]

    def new_id(self):
        self.ids += 1
        return f"m{self.ids}"

    def accepts(self, number, member, generation, positions):
        if self.members.get(number) == member and generation == self.generation:
            return True
        taken = any(
            key in self.given
            and self.given[key][0] != number
            and self.given[key][1] > generation
            and self.given[key][2] < self.now - 1
            for key in positions
        )
        return taken and self.hits("fenced")

    # --- clients: generators, of which each step is an instant ---

    def send(self, client):
        index, begin = self.begin()
        key = self.random.choice(KEYS)
        yield
        offset = len(self.logs[key])
        self.logs[key].append(index)
        yield
        self.end(client, index, "send", begin, key=key, input=index, output=index, offset=offset)

    def consume(self, client):
        index, begin = self.begin()
        yield
        if client.number not in self.members:
            self.end(client, index, "consume", begin, type=FAIL)
            return
        current = self.members[client.number], self.generation
        if (client.member, client.generation) == current:
            yield from self.poll(client, index, begin)
            return
        client.forget()
        client.member, client.generation = current
        given = [key for key in KEYS if client.number in self.assignment[key]]
        committed = {key: self.fetch_offset(key, begin) for key in given}
        client.positions = {key: max(0, offset) for key, offset in committed.items()}
        yield
        value = {"partitions": given, "committed": committed}
        self.end(client, index, "consume", begin, output={**self.who(client, *current), **value})
        for key in given:
            self.given[key] = (client.number, current[1], self.now)
            owners = self.owners.setdefault((current[1], key), set())
            owners.add(client.number)
            self.planted |= len(owners) > 1
        if self.fault == "generation-back":
            self.planted |= begin > self.highest[1] and current[1] < self.highest[0]
        if current[1] > self.highest[0]:
            self.highest = (current[1], self.now)

    def fetch_offset(self, key, begin):
        old = [offset for offset, at in self.acknowledged[key] if at < begin]
        if self.offsets[key] >= 0 and self.hits("phantom"):
            return self.offsets[key] + 100
        if old and old.count(old[0]) == 1 and old[0] != old[-1] and self.hits("lost"):
            return old[0]
        return self.offsets[key]

    def poll(self, client, index, begin):
        records = {}
        if client.positions:
            key = self.random.choice(sorted(client.positions))
            at = client.positions[key]
            shown = [[at + n, value] for n, value in enumerate(self.logs[key][at : at + 3])]
            client.positions[key] = at + len(shown)
            if self.fault == "skipped" and not self.dropped and self.is_new(key, at):
                self.dropped[key] = at
            records = {key: [each for each in shown if each[0] != self.dropped.get(key)]}
            self.polled[key] = max(self.polled.get(key, 0), client.positions[key])
        yield
        value = {**self.who(client, client.member, client.generation), "records": records}
        self.end(client, index, "consume", begin, output=value)

    def is_new(self, key, offset):
        """Whether there is a record that nobody has seen yet."""
        return self.polled.get(key, 0) <= offset < len(self.logs[key])

    def commit(self, client, *, again=False):
        own = (client.member, client.generation, dict(client.positions))
        member, generation, positions = (client.former or own) if again else own
        if member is None or not positions:
            return
        index, begin = self.begin()
        yield
        done = self.accepts(client.number, member, generation, positions)
        silent = self.random.random() < 0.1 and not (self.fault == "fenced" and self.planted)
        if silent and self.random.random() < 0.5:
            done = False
        self.appended += [positions] if done else []
        yield
        self.replicate()
        yield
        f = "zombie-commit" if again else "commit"
        value = {**self.who(client, member, generation), "offsets": positions}
        kind = INFO if silent else OK if done else FAIL
        self.end(client, index, f, begin, output=value, type=kind)
        if kind is INFO:
            client.forget()
        if kind is OK:
            for key, offset in positions.items():
                self.acknowledged[key].append((offset, self.now))
                self.planted |= offset > self.dropped.get(key, 10**9)

    def who(self, client, member, generation):
        return {"member": member, "instance": client.instance, "generation": generation}

    def begin(self):
        self.operations.append(None)
        return len(self.operations) - 1, self.now

    def end(self, client, index, f, begin, **fields):
        self.operations[index] = op(index, f, (begin, self.now), process=client.number, **fields)

    # --- a run ---

    def run(self, clients=3, steps=400):
        everyone = [Client(number) for number in range(clients)]
        active = {}
        self.rebalance(everyone)
        choices = [self.send, self.consume, self.consume, self.commit]
        for _ in range(steps):
            self.now += 1
            client = self.random.choice(everyone)
            if self.random.random() < 0.04:
                self.rebalance(everyone)
            elif self.random.random() < 0.06:
                client.forget()
                if client.instance is not None and client.number in self.members:
                    self.members[client.number] = self.new_id()
            elif client.number not in active:
                again = self.random.random() < 0.1
                begin = self.random.choice(choices)
                active[client.number] = self.commit(client, again=True) if again else begin(client)
            elif next(active[client.number], "done") == "done":
                del active[client.number]
        for steps_left in active.values():
            for _ in steps_left:
                self.now += 1
        self.now += 2
        self.generation += 1
        last = Client(clients)
        index, begin = self.begin()
        self.now += 1
        value = {"partitions": list(KEYS), "committed": dict(self.offsets)}
        value |= self.who(last, self.new_id(), self.generation + 10)
        self.end(last, index, "join-all", begin, output=value)
        return [each for each in self.operations if each is not None]
