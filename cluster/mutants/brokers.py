"""The mutants of the controller's brokers and lists: what they do wrong, in code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster.mutants.mutations import Mutant, Patch
from cluster.node.controller.apis.write_apis import WriteApis
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.state import MetadataState

_HEARTBEAT = WriteApis._heartbeat


def _m41_any_epoch(self: WriteApis, request: Any, state: MetadataState) -> Any:
    broker = state.brokers.get(request.broker_id)
    if broker is not None:
        request = replace(request, broker_epoch=broker.epoch)
    return _HEARTBEAT(self, request, state)


def _m42_committed_state(self: QuorumController) -> MetadataState:
    return self.image.state


ALL = (
    Mutant(
        "M41",
        "takes heartbeats of any broker epoch",
        "broker fencing: a replaced incarnation is kept alive, or fences its successor",
        (Patch(WriteApis, "_heartbeat", _m41_any_epoch),),
    ),
    Mutant(
        "M42",
        "generates records from committed state instead of the newest",
        "linearizability: of two appends to a list that overlap one is lost",
        (Patch(QuorumController, "newest_state", _m42_committed_state),),
    ),
)
