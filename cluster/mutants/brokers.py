"""The mutants of the controller's brokers and lists: what they do wrong, in code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster.mutants.mutations import Mutant, Patch
from cluster.node.broker.lifecycle.registration import BrokerLifecycleManager
from cluster.node.controller.apis.write_apis import WriteApis
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.protocol.messages import BrokerHeartbeatResponse

_HEARTBEAT = WriteApis._heartbeat


def _m41_any_epoch(self: WriteApis, request: Any, state: MetadataState) -> Any:
    broker = state.brokers.get(request.broker_id)
    if broker is not None:
        request = replace(request, broker_epoch=broker.epoch)
    return _HEARTBEAT(self, request, state)


def _m42_committed_state(self: QuorumController) -> MetadataState:
    return self.image.state


def _m41f_at_once(self: BrokerLifecycleManager, reply: Any) -> None:
    if isinstance(reply, BrokerHeartbeatResponse):
        reply = replace(reply, is_caught_up=True)
    _ON_REPLY(self, reply)


_ON_REPLY = BrokerLifecycleManager._on_reply


ALL = (
    Mutant(
        "M41",
        "takes heartbeats of any broker epoch",
        "broker fencing: a replaced incarnation is kept alive, or fences its successor",
        (Patch(WriteApis, "_heartbeat", _m41_any_epoch),),
    ),
    Mutant(
        "M41F",
        "opens its logs before it has replayed its own registration",
        "durability: the log of a topic that was created since is deleted (KIP-631)",
        (Patch(BrokerLifecycleManager, "_on_reply", _m41f_at_once),),
    ),
    Mutant(
        "M42",
        "generates records from committed state instead of the newest",
        "linearizability: of two appends to a list that overlap one is lost",
        (Patch(QuorumController, "newest_state", _m42_committed_state),),
    ),
)
