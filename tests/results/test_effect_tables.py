"""Operations and records, joined by buckets of keys from their tables, show what the whole shows."""

import random
from dataclasses import replace
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from checkers.evidence import LogRecord
from checkers.evidence.effects import RULES, audit_effects, merge
from checkers.history import INFINITY_NS, EventType, Operation
from results.judge.spark_jobs import effects_in, judge_bucket, operations_of
from results.store import tables
from results.store.tables import OPERATIONS_FILE, RECORDS_FILE, RunName

BY_KEY = [workload for workload, rule in RULES.items() if rule.by_key]
FUNCTIONS = {"append": ("append", "read"), "topics": ("create", "delete"), "set": ("add", "read")}
TEXTS = ("a", "b", "c", "a,b", "a,b,c", "\u20ac\"'")


def made_up(workload, seed):
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
                f=chance.choice(FUNCTIONS.get(workload, ("write", "read", "cas"))),
                key=chance.choice([*keys, None]) if workload != "append" else chance.choice(keys),
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
        cell = "list" if workload == "append" else "register"
        value = {"name": f"kraftprobe.{cell}.{key}", "value": chance.choice([*TEXTS, None])}
        if kind == "TopicRecord":
            value = {"name": key, "topicId": chance.choice(["i1", "i2"])}
        records.append(LogRecord("n1", offset, 1, offset, kind, value))
    return operations, records


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_TOGETHER", 12)


@pytest.mark.parametrize(("workload", "seed"), list(product(BY_KEY, range(5))))
def test_in_buckets_the_same_is_found(tmp_path, workload, seed):
    operations, records = made_up(workload, seed)
    run = RunName("c", "r")
    logs = {"n1": records, "n2": [replace(record, node="n2") for record in records[:20]]}
    tables.write_tables(
        tmp_path / "t",
        tables.events_table(run, []),
        tables.operations_table(run, operations),
        tables.records_table(run, logs),
    )
    files = [pq.ParquetFile(tmp_path / "t" / name) for name in (OPERATIONS_FILE, RECORDS_FILE)]
    groups, others = (file.num_row_groups for file in files)
    assert groups > 2
    assert others > 2
    asked = [operations_of(tmp_path / "t" / OPERATIONS_FILE, n, groups) for n in range(groups)]
    args = (groups, workload, "n1")
    done = [effects_in(tmp_path / "t" / RECORDS_FILE, n, *args) for n in range(others)]
    found = []
    for bucket in reversed(range(groups)):
        sides = [
            pa.concat_tables(
                part.filter(pc.equal(part.column("bucket"), bucket)) for part in reversed(parts)
            )
            for parts in (asked, done)
        ]
        found += judge_bucket(workload, *sides, 45)
    whole = audit_effects(workload, records, operations, 45)
    assert whole
    assert merge(found) == merge(whole)


def test_a_write_is_looked_for_under_its_key_and_its_value():
    operations, records = made_up("register", 9)
    held = {(r.value["name"][20:], r.value["value"]) for r in records if r.kind == "ConfigRecord"}
    may = {(o.key, o.input) for o in operations if o.f == "write" and o.type is not EventType.FAIL}
    lost = [
        o.index
        for o in operations
        if o.f == "write" and o.type is EventType.OK and (o.key, o.input) not in held
    ]
    unasked = [
        r.offset
        for r in records[:45]
        if r.kind == "ConfigRecord" and r.value["value"] is not None
        if (r.value["name"][20:], r.value["value"]) not in may
    ]
    found = audit_effects("register", records, operations, 45)
    assert [a["operations"][0] for a in found if "operations" in a] == lost
    assert [a["offset"] for a in found if "offset" in a] == unasked
    assert lost
    assert unasked
