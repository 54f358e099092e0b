"""Which writes left a record, and which records are of a write: by key and value."""

import random

import pytest

from checkers.evidence import LogRecord
from checkers.evidence.effects import audit_effects
from checkers.history import INFINITY_NS, EventType, Operation

TEXTS = ("a", "b", "c", "a,b", "a,b,c", "\u20ac\"'")


def made_up(seed):
    """Operations and records that mostly have nothing to do with each other."""
    chance = random.Random(seed)
    keys = [f"k{n}" for n in range(5)]
    operations = []
    for n in range(40):
        kind = chance.choice(list(EventType)[1:])
        operations.append(
            Operation(
                index=2 * n,
                process=n,
                f=chance.choice(("write", "read", "cas")),
                key=chance.choice([*keys, None]),
                input=chance.choice([*TEXTS, None]),
                output=chance.choice([None, {"id": "i1"}, "a"]),
                type=kind,
                invoke_ns=2 * n,
                complete_ns=INFINITY_NS if kind is EventType.INFO else 2 * n + 1,
                node=chance.choice([None, "n1"]),
            )
        )
    records = []
    for offset in range(60):
        key, kind = chance.choice([*keys, "other"]), chance.choice(["ConfigRecord", "TopicRecord"])
        value = {"name": f"kraftprobe.register.{key}", "value": chance.choice([*TEXTS, None])}
        records.append(LogRecord("n1", offset, 1, offset, kind, value))
    return operations, records


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_a_write_is_looked_for_under_its_key_and_its_value(seed):
    operations, records = made_up(seed)
    held = {(r.value["name"][20:], r.value["value"]) for r in records if r.kind == "ConfigRecord"}
    may = {
        (o.key, o.input)
        for o in operations
        if o.f == "write" and o.type is not EventType.FAIL and o.input is not None
    }
    lost = [
        o.index
        for o in operations
        if o.f == "write" and o.type is EventType.OK and (o.key, o.input) not in held
    ]
    unasked = [
        r.offset
        for r in records[:45]
        if r.kind == "ConfigRecord" and (r.value["name"][20:], r.value["value"]) not in may
    ]
    found = audit_effects("register", records, operations, 45)
    assert [a["operations"][0] for a in found if "operations" in a] == lost
    assert [a["offset"] for a in found if "offset" in a] == unasked
    assert lost
    assert unasked
