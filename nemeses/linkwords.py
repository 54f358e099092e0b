"""Links between named nodes as a plan writes them: "n1>n2,n2-n3", "-" for both ways."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.backends.base import Link
from cluster.names import unknown
from nemeses.base import ParameterError


def links_of(fault: str, text: object, nodes: Sequence[str]) -> tuple[Link, ...]:
    """Read the links, each once, in the order of the text; none of an empty one: ParameterError."""
    if not isinstance(text, str):
        raise ParameterError(f"links of {fault} must be text such as n1>n2,n2-n3, not {text!r}")
    links: dict[Link, None] = {}
    for word in filter(None, text.split(",")):
        ends = word.replace("-", ">").split(">")
        if len(ends) != 2 or ends[0] == ends[1]:
            raise ParameterError(f"a link of {fault} is written n1>n2 or n1-n2, not {word!r}")
        for end in ends:
            if end not in nodes:
                raise ParameterError(unknown("node", end, nodes))
        links[ends[0], ends[1]] = None
        if "-" in word:
            links[ends[1], ends[0]] = None
    return tuple(links)
