"""How a violation is said: what contradicts what, in the user's own values.

Every algorithm names operations, and what stands between them, through these.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from porcupine_py.models.base import Model
from porcupine_py.models.registers import Register, cas_pair
from porcupine_py.models.strings import KeyValue
from porcupine_py.operations import EventType, Operation, seconds
from porcupine_py.search.walk import DeadEnd
from porcupine_py.values import freeze, show


def title(operation: Operation) -> str:
    """Name an operation: `the read of process 3 (operation 7)`."""
    return f"the {operation.f} of process {operation.process} (operation {operation.index})"


def call_text(model: Model, operation: Operation) -> str:
    """Name an operation with its values: `read() -> 1 of process 3 (operation 7)`."""
    what = model.describe_operation(operation)
    return f"{what} of process {operation.process} (operation {operation.index})"


def text(value: object) -> str:
    """Return a value as its user wrote it."""
    return "nothing" if value is None else show(freeze(value))


def duration(time_ns: int) -> str:
    """Return a length of time in the unit that suits it."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if time_ns >= size:
            return f"{time_ns / size:.6g} {unit}"
    return f"{time_ns} ns"


def describe_inversion(first: Operation, second: Operation) -> str:
    """Say that `second` ended before `first` began, though what was read puts it behind `first`.

    Operations insert one element each, or read all of them: what stands before a read it shows,
    what stands behind it lacks.
    """
    earlier = duration(first.invoke_ns - second.complete_ns)
    if first.f == "read" and second.f == "read":
        return f"{title(first)} shows less than {title(second)}, which had ended {earlier} before"
    if first.f == "read":
        lacked = f"{text(second.input)}, whose {second.f} (operation {second.index})"
        return f"{title(first)} lacks {lacked} had been acknowledged {earlier} before"
    if second.f == "read":
        what = f"{title(second)} shows {text(first.input)}"
        return f"{what}, whose {first.f} (operation {first.index}) began {earlier} after it ended"
    return (
        f"the {first.f} of {text(first.input)} (operation {first.index}) began {earlier} after the "
        f"{second.f} of {text(second.input)} (operation {second.index}) had been acknowledged, but "
        f"reads show it first"
    )


def no_order(
    operations: Sequence[Operation], model: Model, blocked: Operation, state: str | None = None
) -> str:
    """Say which operation no order reaches; `state`: what the longest order leaves."""
    stale = stale_read(operations, model, [blocked]) or stale_get(operations, model, [blocked])
    if stale is not None:
        return stale
    left = "" if state is None else f"; the longest order leaves {state}"
    return (
        f"no order of what had ended by {seconds(blocked.complete_ns)} has a place for "
        f"{call_text(model, blocked)}{left}"
    )


_STATES_MAX = 8
"""States that are listed one by one."""


def possible_states(model: Model, end: DeadEnd) -> str:
    """Say what the object may have held just before an operation ended that fits none of it.

    That is by the operations of a window alone: it is small, and leaves out what changes nothing
    of the contradiction. "" where the model takes many states for one, which then has no value.
    """
    if type(model).indistinct is not Model.indistinct:
        return ""
    blocked, possible = end
    states = [text(s) if s is None else model.describe_state(s) for s in possible[:_STATES_MAX]]
    more = len(possible) - len(states)
    listed = " or ".join(states) + (f" or one of {more} more" if more else "")
    return (
        f"by these operations alone, just before {call_text(model, blocked)} ended, at "
        f"{seconds(blocked.complete_ns)}, there can have been {listed} only, which its answer "
        f"does not fit"
    )


def stale_get(
    operations: Sequence[Operation], model: Model, among: Sequence[Operation]
) -> str | None:
    """Explain a get, one of `among`, that lacks an acknowledged text; None: no such.

    The text was put or appended before the get began, and no other put can have come behind it.
    """
    if not isinstance(model, KeyValue):
        return None
    puts = [o for o in operations if o.f == "put" and model.has_effect(o)]
    made = [o for o in operations if o.f in ("append", "put") and o.type is EventType.OK]
    for get in (o for o in among if o.f == "get" and isinstance(o.output, str)):
        for done in sorted(made, key=lambda o: o.complete_ns, reverse=True):
            ended = done.complete_ns < get.invoke_ns and isinstance(done.input, str)
            if (
                not ended
                or done.input in get.output
                or any(
                    o is not done
                    and o.complete_ns >= done.invoke_ns
                    and o.invoke_ns <= get.complete_ns
                    for o in puts
                )
            ):
                continue
            return (
                f"stale read: {call_text(model, get)} began at {seconds(get.invoke_ns)} and lacks "
                f"{text(done.input)}, whose {done.f} (operation {done.index}) had ended at "
                f"{seconds(done.complete_ns)}"
            )
    return None


def stale_read(
    operations: Sequence[Operation], model: Model, among: Sequence[Operation]
) -> str | None:
    """Explain a read of a register, one of `among`, that an acknowledged write makes stale.

    That write ended before the read began, and all that can have made the value which was read had
    ended before that write began. None where no read is so plainly wrong.
    """
    if not isinstance(model, Register):
        return None
    made = [(o, _new_value(o)) for o in operations if model.has_effect(o)]
    chosen = {o.index for o in among}
    for read in among:
        if read.f != "read":
            continue
        value = freeze(read.output)
        own = [o for o, v in made if v == value and o.invoke_ns <= read.complete_ns]
        last_ns = max((o.complete_ns for o in own), default=-1)
        between = [
            (o.index in chosen, o.invoke_ns, o)
            for o, v in made
            if v != value and o.type is EventType.OK and last_ns < o.invoke_ns
            if o.complete_ns < read.invoke_ns
        ]
        if between and (own or value == model.init()):
            _, _, newest = max(between, key=lambda candidate: candidate[:2])
            again = any(v == value and o.invoke_ns > read.complete_ns for o, v in made)
            return _stale(read, newest, is_initial=not own, again=again)
    return None


def _stale(read: Operation, newest: Operation, *, is_initial: bool, again: bool) -> str:
    value = text(read.output)
    before = "was there at the beginning" if is_initial else "was overwritten"
    ending = f"{before} and {'written again only later' if again else 'never written again'}"
    return (
        f"stale read: the read of {value} by process {read.process} (operation {read.index}) began "
        f"at {seconds(read.invoke_ns)}, after the {newest.f} of {show(_new_value(newest))} "
        f"(operation {newest.index}) had ended at {seconds(newest.complete_ns)}; {value} {ending}"
    )


def describe_swap(
    operations: Sequence[Operation], model: Model, among: Sequence[Operation]
) -> str | None:
    """Explain a string in which a text stands before what it was appended to; None: no such."""
    if not isinstance(model, KeyValue):
        return None
    texts = {o.input: o for o in operations if o.f != "get" and isinstance(o.input, str)}
    for get in among:
        shown = get.output if get.f == "get" and isinstance(get.output, str) else ""
        for place in range(1, len(shown)):
            after, before = texts.get(shown[:place]), texts.get(shown[place:])
            if after is not None and before is not None and after.f == "append":
                if before.complete_ns < after.invoke_ns:
                    pair = f"{text(after.input)} was appended behind {text(before.input)}"
                    return f"{call_text(model, get)}: {pair}, never before it"
    return None


def _new_value(operation: Operation) -> Hashable:
    """Return the value that a write or a compare-and-set makes."""
    return cas_pair(operation)[1] if operation.f == "cas" else freeze(operation.input)
