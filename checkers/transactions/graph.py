"""Strongly connected components and shortest cycles.

Tarjan (1972), without recursion; breadth-first search for the cycles. Nodes are visited in the
order in which they were given, so that the same graph gives the same cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from checkers.transactions.operations import Edge

Graph = Mapping[int, Sequence[int]]


def components(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components, every node in one. O(nodes + edges)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in number:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(graph.get(root, ())))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next((t for t in targets if t not in number or t in on_stack), None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    place = _place(stack, node)
                    found.append(stack[place:])
                    on_stack.difference_update(stack[place:])
                    del stack[place:]
            elif target in number:
                low[node] = min(low[node], number[target])
            else:
                number[target] = low[target] = len(number)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(graph.get(target, ()))))
    return found


def _place(stack: Sequence[int], node: int) -> int:
    """Return where a node is, from the end: components leave from there."""
    place = len(stack) - 1
    while stack[place] != node:
        place -= 1
    return place


def path(
    following: Mapping[int, Sequence[Edge]],
    source: int,
    target: int,
    allowed: Callable[[Edge], bool] = lambda _: True,
) -> list[Edge] | None:
    """Return the fewest allowed edges from `source` to `target`; None when there is no way."""
    came: dict[int, Edge | None] = {source: None}
    todo = deque([source])
    while todo:
        node = todo.popleft()
        if node == target:
            break
        for edge in following.get(node, ()):
            if edge.target not in came and allowed(edge):
                came[edge.target] = edge
                todo.append(edge.target)
    if target not in came:
        return None
    way: list[Edge] = []
    edge_in = came[target]
    while edge_in is not None:
        way.append(edge_in)
        edge_in = came[edge_in.source]
    return way[::-1]
