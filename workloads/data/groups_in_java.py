"""One process of workload `groups` with Kafka's own producer and consumer.

Its joins do not show what is committed: a consumer may have asked a coordinator that was deposed.
What is committed in the end is read by the own client (`join-all`), as are the partitions. A
consumer whose poll had no answer in time is done with its process: it may have processed what
nobody saw.
"""

from __future__ import annotations

from typing import Any, Final

from checkers.groups.facts import ABANDON, COMMIT, LEAVE, ZOMBIE_COMMIT
from checkers.history import EventType
from checkers.partition_logs.columns import CONSUME, SEND
from workloads.base import ClientContext, Completion, Op
from workloads.data.groups_client import (
    GROUP_ID,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    GroupsClient,
    instance_of,
)
from workloads.data.java_clients import SILENCE, JavaClient
from workloads.data.leads import Budget, Stopped

_WHO: Final = 3
"""Fields of an answer that say who a member is."""


class JavaGroupsClient:
    """See the module."""

    def __init__(
        self, context: ClientContext, own: GroupsClient, topic: str, protocol: str
    ) -> None:
        self._context = context
        self._own = own
        self._java = JavaClient(context)
        limits = (str(SESSION_TIMEOUT_MS), str(REBALANCE_TIMEOUT_MS))
        instance = instance_of(context.worker) or ""
        self._consume = ("consume", GROUP_ID, topic, instance, protocol, *limits)
        self._pause_ms = REBALANCE_TIMEOUT_MS * 1.25

    async def invoke(self, op: Op) -> Completion:
        asked = {
            SEND: ("send", str(op.key), str(op.value)),
            CONSUME: self._consume,
            COMMIT: ("commit", "0"),
            ZOMBIE_COMMIT: ("commit", str(round(self._pause_ms))),
            LEAVE: ("leave", str(round(self._context.timeout_ms / 2))),
            ABANDON: ("leave", "0"),
        }.get(op.f)
        if asked is None:
            return await self._own.invoke(op)
        try:
            found = await self._java.call(*asked, budget=Budget(self._context.timeout_ms))
        except Stopped as stopped:
            return Completion(EventType.FAIL, op.value, stopped.error, stopped.node)
        if found is None:
            return Completion(EventType.INFO, op.value, SILENCE)
        kind, *fields = found
        return _completion(op, EventType(kind), fields)

    async def close(self) -> None:
        await self._java.close()
        await self._own.close()


def _completion(op: Op, kind: EventType, fields: list[str]) -> Completion:
    if op.f == SEND and kind is EventType.OK:
        return Completion(kind, op.value, offset=int(fields[1]))
    if op.f == CONSUME and kind is EventType.OK:
        return Completion(kind, _consumption(*fields))
    if op.f in (COMMIT, ZOMBIE_COMMIT) and len(fields) > _WHO:
        error, *who = fields
        offsets = {
            partition: int(offset) for partition, offset in zip(who[3::2], who[4::2], strict=True)
        }
        return Completion(kind, {**_who(*who[:3]), "offsets": offsets}, error or None)
    return Completion(kind, op.value, fields[0] if fields else None)


def _consumption(
    member: str, generation: str, instance: str, is_new: str, partitions: str, *shown: str
) -> dict[str, Any]:
    records: dict[str, Any] = {}
    for partition, offset, value in zip(shown[::3], shown[1::3], shown[2::3], strict=True):
        records.setdefault(partition, []).append([int(offset), value])
    consumed = {**_who(member, generation, instance), "records": records}
    if is_new:
        given = [name for name in partitions.split(",") if name]
        consumed |= {"partitions": given, "committed": {}}
    return consumed


def _who(member: str, generation: str, instance: str) -> dict[str, Any]:
    return {"member": member, "instance": instance or None, "generation": int(generation)}
