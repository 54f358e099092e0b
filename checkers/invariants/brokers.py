"""Invariants of brokers and partitions, over the metadata images of nodes.

They read events of `harness/sim/sights/images.py`, such as `image`: a node's committed metadata at
an offset, read from a simulated world; its field `image` is an `Image`. No trace has it, so these
do not judge stored runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.sight import NO_NODE, Fields

_REMEMBERED_MAX = 5_000
"""Offsets whose content is remembered, the newest; nodes do not lag behind by more for long."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition, and the state of its brokers in the image."""

    name: str
    """As `topic-index`."""
    topic_exists: bool
    leader: int
    """-1: none."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    is_recovering: bool
    """Its leader was elected uncleanly and has not taken up its log yet."""
    isr_min: int
    active: frozenset[int]
    """Of its replicas and leader: registered, neither fenced nor shutting down."""
    online: frozenset[int]
    """Of these: the log directory of its replica is not known to be offline."""
    unplaced: frozenset[int] = frozenset()
    """Of its replicas: not in the directory of their broker, which has a single one."""
    last_known: tuple[int, ...] = ()
    """The leader that it had last, where that may be elected again."""
    takers: frozenset[int] = frozenset()
    """Of its replicas and its last leader: alive, in an online log directory, and by an unclean
    election, which its topic has allowed since before it had no leader, or they were alive, they
    would lead."""


@dataclass(frozen=True, slots=True)
class Image:
    """The part of a node's committed metadata that is compared."""

    offset: int
    has_elr: bool
    """Whether eligible leader replicas are enabled (KIP-966)."""
    brokers: Mapping[int, tuple[int, Hashable]]
    """Epoch and incarnation by id."""
    changed: Mapping[Hashable, Partition]
    """Partitions that changed since this node's image was last read."""
    affected: Mapping[Hashable, Partition]
    """Those, and the partitions whose topic, configuration or brokers changed."""
    content: Hashable
    """Equal for two images that hold the same."""
    view_difference: str | None
    """How the state published to the broker differs from the image; None: it does not."""
    stray_configs: tuple[str, ...] = ()
    """Topics that were deleted since, and have configurations still."""


@rule("image", "KIP-966's TLA+ specification")
def valid_brokers(node: str, fields: Fields) -> Broken | None:
    """Brokers and partitions are consistent in every committed state.

    After ValidControllerState and ValidControllerIsrAndElr of KIP-966's specification, and Kafka's
    rules for the last member of an ISR and for the last leader, which is known while there is none.
    """
    image: Image = fields["image"]
    for partition in image.affected.values():
        for reason in faults(partition, has_elr=image.has_elr):
            return Broken(f"{node} at offset {image.offset}: {reason}")
    for topic in image.stray_configs:
        return Broken(
            f"{node} at offset {image.offset}: topic {topic} is deleted, and its "
            "configurations are kept"
        )
    return None


class ImageAgreement(Invariant):
    """An image is the replay of a prefix of the log, whichever node's it is."""

    name = "image-agreement"
    source = "KIP-630: a snapshot is the replay of a prefix of the log"

    _contents: dict[int, tuple[str, Hashable]] = field(default_factory=dict)
    """By offset: the first node whose image was read there, and its content."""

    def on_image(self, node: str, fields: Fields) -> Broken | None:
        image: Image = fields["image"]
        other, known = self._contents.setdefault(image.offset, (node, image.content))
        if len(self._contents) > _REMEMBERED_MAX:
            del self._contents[next(iter(self._contents))]
        if known == image.content:
            return None
        explanation = f"images of {other} and {node} differ at offset {image.offset}"
        return Broken(explanation, (other, node))


@rule("image", "Kafka's MetadataPublisher")
def broker_view(node: str, fields: Fields) -> Broken | None:
    """The state published to a broker, on which it acts, is that of its image."""
    image: Image = fields["image"]
    if image.view_difference is None:
        return None
    return Broken(f"{node} at offset {image.offset}: {image.view_difference}")


class _OfNewestImages(Invariant):
    """Follows the newest image that any node has."""

    _offset: int = -1

    def on_image(self, node: str, fields: Fields) -> Broken | None:
        image: Image = fields["image"]
        if image.offset <= self._offset:
            return None
        self._offset = image.offset
        return self._advance(image)

    def _advance(self, image: Image) -> Broken | None:
        raise NotImplementedError


class BrokerEpoch(_OfNewestImages):
    """A broker's epoch grows with each incarnation, and with nothing else."""

    name = "broker-epoch"
    source = "KIP-631"

    _known: dict[int, tuple[int, Hashable]] = field(default_factory=dict)

    def _advance(self, image: Image) -> Broken | None:
        broken = None
        for broker, (epoch, incarnation) in image.brokers.items():
            before, known = self._known.get(broker, (-1, incarnation))
            if epoch < before or (known != incarnation and epoch == before):
                broken = f"broker {broker} went from epoch {before} to {epoch} by {image.offset}"
        self._known.update(image.brokers)
        return None if broken is None else Broken(broken)


class PartitionEpochs(_OfNewestImages):
    """Leader and partition epochs never decrease; a new leader epoch is a new partition epoch.

    A replica is taken away with a new leader epoch: what it fetches on is refused.
    """

    name = "partition-epochs"
    source = "KIP-841; PartitionChangeBuilder.java, triggerLeaderEpochBump"

    _known: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    _replicas: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)

    def _advance(self, image: Image) -> Broken | None:
        broken = None
        for key, partition in image.changed.items():
            before = self._known.get(key, (-1, -1))
            after = partition.leader_epoch, partition.partition_epoch
            again = after[0] > before[0] and after[1] == before[1]
            left = {*self._replicas.get(key, ())} - {*partition.replicas}
            self._replicas[key] = partition.replicas
            if left and after[0] == before[0]:
                broken = (
                    f"{partition.name} lost replica {min(left)} by offset {image.offset}, and is "
                    f"in leader epoch {after[0]} still"
                )
            if after[0] < before[0] or after[1] < before[1] or again:
                broken = (
                    f"{partition.name} went from leader epoch {before[0]}, partition epoch "
                    f"{before[1]} to {after[0]}, {after[1]} by offset {image.offset}"
                )
            self._known[key] = after
        return None if broken is None else Broken(broken)


@rule("published", "KIP-630, MetadataLoader; KAFKA-14857")
def published_new(node: str, fields: Fields) -> Broken | None:
    """A node that starts publishes no metadata before it has what a leader says is committed.

    Else it would act on what was true long ago.
    """
    offset, heard = fields["offset"], fields["high_watermark"]
    if heard is not None and offset >= heard - 1:
        return None
    known = "before any leader told it what is committed"
    if heard is not None:
        known = f"when it had heard that all below {heard} is committed"
    return Broken(f"{node} published its first metadata, up to offset {offset}, {known}")


@rule("partitions-found", "BrokersToIsrs.java")
def partitions_found(node: str, fields: Fields) -> Broken | None:
    """A controller finds by a broker, or by what is due to partitions, those that have it alone.

    It acts on nothing else: what it misses when a broker goes keeps its leader, and a partition
    that it finds by what is no more is changed for nothing, or is gone.
    """
    found, having = fields["found"], fields["having"]
    for mark in dict.fromkeys((*having, *found)):
        wrong = sorted({*found.get(mark, ())} ^ {*having.get(mark, ())})
        if not wrong:
            continue
        among = f"the partitions that are {mark}"
        if isinstance(mark, int):
            among = f"the partitions that broker {mark} holds"
        is_one = wrong[0] in having.get(mark, ())
        finds = "does not find" if is_one else "finds"
        return Broken(
            f"{node} leads the controllers and {finds} {wrong[0]} among {among}, of which it "
            f"is {'one' if is_one else 'none'}"
        )
    return None


@rule("controller-image", "KIP-868, recordsForEmptyLog; KAFKA-20839")
def bootstrap_first(node: str, fields: Fields) -> Broken | None:
    """What a controller commits first, where there are no metadata, is what a cluster begins with.

    Without a metadata.version it answers nothing. Who leads next has to write it again where the
    one before could not commit it.
    """
    claimed, offset = fields["claimed"], fields["offset"]
    if offset <= claimed or fields["in_transaction"] or fields["has_version"]:
        return None
    return Broken(
        f"{node} claimed to be the controller at offset {claimed}, where no metadata.version "
        f"was, and has committed all up to {offset} without one"
    )


BROKER_INVARIANTS = rules_of(__name__)


def faults(partition: Partition, *, has_elr: bool) -> Iterator[str]:
    """Yield what is wrong with a partition, one sentence each."""
    if not partition.topic_exists:
        yield f"{partition.name} is of no topic"
        return
    for reason in _faults(partition, has_elr=has_elr):
        yield (
            f"{partition.name} {reason}: leader {partition.leader}, replicas "
            f"{_ids(partition.replicas)}, ISR {_ids(partition.isr)}, ELR {_ids(partition.elr)}"
        )


def _faults(partition: Partition, *, has_elr: bool) -> Iterator[str]:
    isr, elr, replicas = set(partition.isr), set(partition.elr), set(partition.replicas)
    led = partition.leader != NO_NODE
    if len(isr) != len(partition.isr) or not isr <= replicas or not elr <= replicas:
        yield "has members in sync that are not its replicas, or twice"
    if isr & elr:
        yield "has a member of the ISR in the ELR"
    if partition.elr and len(isr) >= min(partition.isr_min, len(replicas)):
        yield "keeps an ELR although its ISR is large enough"
    if led:
        yield from _faults_of_leader(partition)
    if partition.unplaced and partition.partition_epoch == 0:
        # Of several a broker chooses one; and one of another disk has yet to say where it is.
        yield "is new, and a replica is not in the only directory that its broker has"
    alive = isr <= partition.active
    # A reassignment that a client takes back uncleanly leaves the first replica, whoever is alive.
    is_first_again = partition.is_recovering and partition.isr == partition.replicas[:1]
    is_last_member = len(isr) == 1 and not led and (not has_elr or is_first_again)
    if not alive and not is_last_member:
        yield "has a fenced broker in its ISR"
    if not led:
        yield from _faults_of_the_leaderless(partition, has_elr=has_elr)


def _faults_of_leader(partition: Partition) -> Iterator[str]:
    if partition.last_known:
        yield "remembers the last leader although it has one"
    if partition.leader not in partition.isr or partition.leader not in partition.active:
        yield "is led by a broker that is not in sync, or not alive"
    if partition.leader in partition.replicas and partition.leader not in partition.online:
        yield "is led from a log directory that is offline"
    if partition.is_recovering and len(partition.isr) != 1:
        yield "is recovering, and more than its leader is in sync"


def _faults_of_the_leaderless(partition: Partition, *, has_elr: bool) -> Iterator[str]:
    isr, usable = set(partition.isr), partition.active & partition.online
    if isr and isr <= partition.active and isr & set(partition.replicas) <= partition.online:
        yield "has no leader although brokers in sync are alive"
    if has_elr and not isr and usable.intersection(partition.elr):
        yield "has no leader although one is alive that is eligible"
    if partition.takers:
        yield "has no leader although its topic allows any, and a replica is alive"


def _ids(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers)) or "none"
