"""Links between named nodes as a plan writes them: "n1>n2,n2-n3", "-" for both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster.backends.base import Link
from cluster.names import unknown
from nemeses.base import ParameterError


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
