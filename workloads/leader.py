"""The node that a client asks when it wants the active controller.

A guess, shared by the workers of a run that follow the leader. It only steers which node is asked;
nothing that a client concludes from an answer rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence


class LeaderTracker:
    """The node that is believed to lead, and the epoch of that belief.

    Beliefs come from the quorum's own descriptions (`learn`); a node that refused or did not
    answer is left for the next in order (`suspect`), so that clients find a leader by themselves
    where nothing names it.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        """`nodes`: those that may lead."""
        assert nodes, "a cluster has nodes"
        self._nodes = tuple(nodes)
        self._guess = self._nodes[0]
        self._epoch = -1

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that may lead."""
        return self._nodes

    @property
    def guess(self) -> str:
        """The node to ask next."""
        return self._guess

    @property
    def epoch(self) -> int:
        """Latest epoch in which a leader was seen; -1 before."""
        return self._epoch

    def learn(self, node: str, epoch: int) -> None:
        """Believe that `node` leads `epoch`; what is older than the belief is ignored."""
        assert node in self._nodes, f"unknown node {node}"
        if epoch >= self._epoch:
            self._guess, self._epoch = node, epoch

    def suspect(self, node: str) -> None:
        """`node` was asked and does not lead; ignored when the belief has moved on since."""
        if node == self._guess:
            position = self._nodes.index(node)
            self._guess = self._nodes[(position + 1) % len(self._nodes)]
