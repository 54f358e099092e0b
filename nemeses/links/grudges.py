"""Links between nodes, as a plan writes them, and shapes of partitions: which links each cuts.

The names of shapes are Jepsen's, where it has one. A node *sees* another when neither link between
the two is cut, since a request needs one and its response the other. A majority of n is n // 2 + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cluster.backends.base import Link
from cluster.names import unknown
from nemeses.base import ParameterError

Nodes = Sequence[str]
"""Names; their order decides the sides, so a caller shuffles them with its seeded generator."""


def between(some: Iterable[str], others: Iterable[str]) -> frozenset[Link]:
    """Cut both directions between each of some nodes and each of others."""
    out = one_way(some, others)
    return out | {(b, a) for a, b in out}


def one_way(sources: Iterable[str], targets: Iterable[str]) -> frozenset[Link]:
    """Cut every link from a source to a target, and none from a target."""
    heard = tuple(targets)
    return frozenset((a, b) for a in sources for b in heard if a != b)


def isolate(nodes: Nodes, targets: Iterable[str], direction: str = "both") -> frozenset[Link]:
    """Some nodes against the rest: both ways, or only what they send, or get ("outgoing", ...)."""
    inside = tuple(targets)
    outside = tuple(node for node in nodes if node not in inside)
    out, into = one_way(inside, outside), one_way(outside, inside)
    return {"both": out | into, "outgoing": out, "incoming": into}[direction]


def halves(nodes: Nodes) -> frozenset[Link]:
    """The first n // 2 nodes on one side, the rest, a majority if n is odd, on the other."""
    middle = len(nodes) // 2
    return between(nodes[:middle], nodes[middle:])


def bridge(nodes: Nodes) -> frozenset[Link]:
    """Two halves that do not see each other, and the node in the middle that sees both.

    For n >= 3, as of a ring. With n = 3 every node sees a majority; with odd n every half sees
    one with the bridge; with even n only the larger half does.
    """
    middle = len(nodes) // 2
    return between(nodes[:middle], nodes[middle + 1 :])


def majorities_ring(nodes: Nodes) -> frozenset[Link]:
    """Every node sees a majority, and no two see the same one.

    The nodes stand on a ring, and each sees those that are at most r steps away, r the smallest
    number with which these are a majority: 2r + 1 >= n // 2 + 1, so r = (n // 2 + 1) // 2. For
    n >= 4 that leaves somebody out (2r + 1 < n), and the windows around two nodes differ. For
    n = 3 one step is the whole ring and nothing would be cut: the ring is then opened between
    its ends, which is the bridge, and still lets every node see another majority (a, b), (a, b, c),
    (b, c). Sees is symmetric, as a request needs its response.
    """
    size = len(nodes)
    if size == 3:
        return bridge(nodes)
    reach = (size // 2 + 1) // 2
    return frozenset(
        (a, b)
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
        if min((i - j) % size, (j - i) % size) > reach
    )


def links_of(fault: str, text: object, nodes: Sequence[str]) -> tuple[Link, ...]:
    """Read the links, each once, in the order of the text; none of an empty one: ParameterError."""
    if not isinstance(text, str):
        raise ParameterError(f"links of {fault} must be text such as n1>n2,n2-n3, not {text!r}")
    links: dict[Link, None] = {}
    for source, target, both in ends_of(text):
        for end in (source, target):
            if end not in nodes:
                raise ParameterError(unknown("node", end, nodes))
        if source == target:
            raise ParameterError(f"{source} has no link to itself")
        links[source, target] = None
        if both:
            links[target, source] = None
    return tuple(links)


def ends_of(text: str) -> Iterator[tuple[str, str, bool]]:
    """Read each link as (from, to, whether both ways), whatever its ends are: ParameterError."""
    for word in filter(None, text.split(",")):
        ends = word.replace("-", ">").split(">")
        if len(ends) != 2:
            raise ParameterError(f"a link is written n1>n2 or n1-n2, not {word!r}")
        yield ends[0], ends[1], "-" in word
