"""Which final state the history of one key allows, rule by rule (see `checkers.nodes.durability`).

Every rule takes the operations of one key and what one node serves for it in the end, and returns
None or one anomaly that names the operations at fault.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.verdict import Anomaly, anomaly
from porcupine_py.models.topics import EXISTS, UNKNOWN_ID, UNKNOWN_TOPIC
from porcupine_py.values import freeze


def set_anomaly(key: str, operations: Sequence[Operation], final: Any) -> Anomaly | None:
    """Judge one element: there when acknowledged, not there when it only failed."""
    adds = [operation for operation in operations if operation.f == "add"]
    acknowledged = [add for add in adds if add.type is EventType.OK]
    if final is None:
        if acknowledged:
            return _anomaly(
                "lost", f"{_describe(acknowledged[0])}, but it is not there", acknowledged
            )
        return None
    possible = [add for add in adds if add.type is not EventType.FAIL]
    if not possible:
        explanation = "every attempt to add it definitely failed" if adds else "nobody added it"
        return _anomaly("phantom", f"{key!r} is there, though {explanation}", adds)
    return _wrong_partitions(key, possible, final)


def register_anomaly(key: str, operations: Sequence[Operation], final: Any) -> Anomaly | None:
    """Judge one register: its value must be one that nothing acknowledged has overwritten."""
    writes = [operation for operation in operations if operation.f == "write"]
    done = _done_ns(writes, operations)
    settled = [w for w in writes if w.type is not EventType.FAIL and done[w.index] < INFINITY_NS]
    if final is None:
        if settled:
            last = max(settled, key=lambda write: write.invoke_ns)
            return _anomaly("lost", f"{_describe(last)}, but {key!r} has no value", [last])
        return None
    same = [write for write in writes if freeze(write.input) == freeze(final)]
    possible = [write for write in same if write.type is not EventType.FAIL]
    if not possible:
        explanation = "and its write definitely failed" if same else "which nobody wrote"
        return _anomaly("phantom", f"{key!r} has the value {final!r}, {explanation}", same)
    latest_ns = max(done[write.index] for write in possible)
    after = [write for write in settled if write.invoke_ns > latest_ns]
    if not after:
        return None
    lost = max(after, key=lambda write: write.invoke_ns)
    explanation = f"{_describe(lost)}, but {key!r} has the older value {final!r}"
    return _anomaly("lost", explanation, [*possible, lost])


def _done_ns(writes: Sequence[Operation], operations: Sequence[Operation]) -> dict[int, int]:
    """When each write had certainly taken effect: completed, or its value was read.

    Reads prove it only where no other write has the same value.
    """
    times = Counter(freeze(write.input) for write in writes)
    read_ns: dict[Hashable, int] = {}
    for read in operations:
        if read.f == "read" and read.type is EventType.OK:
            value = freeze(read.output)
            read_ns[value] = min(read.complete_ns, read_ns.get(value, INFINITY_NS))
    done = {}
    for write in writes:
        value = freeze(write.input)
        seen_ns = read_ns.get(value, INFINITY_NS) if times[value] == 1 else INFINITY_NS
        done[write.index] = min(write.complete_ns, seen_ns)
    return done


def list_anomaly(key: str, operations: Sequence[Operation], final: Any) -> Anomaly | None:
    """Judge one list, elements joined by commas: it lacks nothing, and goes on from each read."""
    elements = str(final).split(",") if final else []
    appends = {str(o.input): o for o in operations if o.f == "append"}
    reads = [o for o in operations if o.f == "read" and o.type is EventType.OK]
    for element, times in Counter(elements).items():
        append = appends.get(element)
        if append is None or append.type is EventType.FAIL:
            explanation = f"{key!r} holds {element!r}, which no append can have added"
            return _anomaly("phantom", explanation, [] if append is None else [append])
        if times > 1:
            return _anomaly("doubled", f"{key!r} holds {element!r} {times} times", [append])
    for append in appends.values():
        if append.type is EventType.OK and str(append.input) not in elements:
            return _anomaly("lost", f"{_describe(append)}, but it is not there", [append])
    for read in reads:
        if list(read.output) != elements[: len(read.output)]:
            explanation = f"{key!r} does not begin with what operation {read.index} read"
            return _anomaly("reordered", explanation, [read])
    return None


def counter_anomaly(key: str, operations: Sequence[Operation], final: Any) -> Anomaly | None:
    """Judge the number of partitions of one topic beyond its first, by the increments and reads."""
    count = 0 if final is None else int(final["partitions"]) - 1
    increments = [o for o in operations if o.f == "increment" and o.type is not EventType.FAIL]
    if count > len(increments):
        explanation = f"{key!r} counts {count}, but only {len(increments)} can have had an effect"
        return _anomaly("phantom", explanation, increments)
    done = sorted(o.invoke_ns for o in increments if o.type is EventType.OK)
    if count < len(done):
        explanation = f"{key!r} counts {count}, but {len(done)} increments were acknowledged"
        return _anomaly("lost", explanation, increments)
    for read in operations:
        if read.f == "read" and read.type is EventType.OK:
            later = len(done) - bisect_right(done, read.complete_ns)
            if count < read.output + later:
                explanation = (
                    f"{key!r} counts {count}, but operation {read.index} read {read.output}, and "
                    f"{later} increments that were asked for later were acknowledged"
                )
                return _anomaly("lost", explanation, [read])
    return None


def topic_anomaly(key: str, operations: Sequence[Operation], final: Any) -> Anomaly | None:
    """Judge one topic name: taken by a topic that nothing has removed, or free after a deletion."""
    if final is None:
        return _gone_without_deletion(key, operations)
    creates = [o for o in operations if o.f == "create" and o.type is not EventType.FAIL]
    topic_id = final.get("id")
    known = [o for o in creates if o.type is EventType.OK and _id(o.output) == topic_id]
    unknown = [o for o in creates if o.type is EventType.INFO or _id(o.output) is None]
    if not known and not unknown:
        explanation = f"{key!r} is there with id {topic_id}, which no create can have made"
        return _anomaly("phantom", explanation, creates)
    seen = [o for o in operations if _is_describe(o) and _id(o.output) == topic_id]
    done_ns = min((o.complete_ns for o in [*known, *seen]), default=INFINITY_NS)
    after = [o for o in operations if o.invoke_ns > done_ns and _shows_gone(o, topic_id)]
    if after:
        explanation = f"{key!r} is there with id {topic_id}, though {_describe(after[0])}"
        return _anomaly("lost-deletion", explanation, [*known, *seen[:1], after[0]])
    return _wrong_partitions(key, known or unknown, final)


def _gone_without_deletion(key: str, operations: Sequence[Operation]) -> Anomaly | None:
    deletes = [o for o in operations if o.f == "delete" and o.type is not EventType.FAIL]
    last_delete_ns = max((delete.complete_ns for delete in deletes), default=-1)
    shown = [o for o in operations if _shows_presence(o) and o.invoke_ns > last_delete_ns]
    if not shown:
        return None
    explanation = (
        f"{_describe(shown[0])} and no deletion can have followed, but {key!r} is not there"
    )
    return _anomaly("lost", explanation, shown[:1])


def _shows_presence(operation: Operation) -> bool:
    if operation.type is EventType.OK:
        return operation.f == "create" or _is_describe(operation)
    return operation.type is EventType.FAIL and (operation.f, operation.error) == ("create", EXISTS)


def _shows_gone(operation: Operation, topic_id: Any) -> bool:
    """Return whether the topic cannot have outlived this operation, if it was there before."""
    if operation.type is EventType.FAIL:
        return operation.f == "delete" and operation.error in (UNKNOWN_TOPIC, UNKNOWN_ID)
    if operation.type is not EventType.OK:
        return False
    if operation.f == "describe" and operation.output is not None:
        return _id(operation.output) not in (None, topic_id)
    return operation.f in ("create", "delete", "describe")


def _is_describe(operation: Operation) -> bool:
    """Return whether it is a describe that saw the topic."""
    return (
        operation.f == "describe"
        and operation.type is EventType.OK
        and operation.output is not None
    )


def _id(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else value if isinstance(value, str) else None


def _wrong_partitions(key: str, creates: Sequence[Operation], final: Any) -> Anomaly | None:
    """Compare the number of partitions with what any of the creates asked for."""
    there = final.get("partitions") if isinstance(final, dict) else None
    asked = {_partitions(create.input) for create in creates}
    if there is None or None in asked or there in asked:
        return None
    explanation = (
        f"{key!r} has {there} partitions, not the {sorted(asked, key=str)} that it was made with"
    )
    return _anomaly("wrong-partitions", explanation, creates)


def _partitions(value: Any) -> Any:
    return value.get("partitions") if isinstance(value, dict) else None


def _describe(operation: Operation) -> str:
    """Describe an operation, and when which node acknowledged it."""
    node = operation.node or "the system"
    if operation.complete_ns == INFINITY_NS:
        when = f"invoked at {seconds(operation.invoke_ns)}, and its effect was read"
    elif operation.type is EventType.FAIL:
        when = f"refused by {node} at {seconds(operation.complete_ns)} as {operation.error}"
    else:
        when = f"acknowledged by {node} at {seconds(operation.complete_ns)}"
    argument = "" if operation.input is None else f" {operation.input!r}"
    name = f" of {operation.key!r}" if operation.key is not None else ""
    return f"operation {operation.index} ({operation.f}{argument}{name}) was {when}"


def _anomaly(kind: str, explanation: str, operations: Iterable[Operation]) -> Anomaly:
    indexes = [operation.index for operation in operations]
    return anomaly(kind, explanation, operations=indexes[:20])
