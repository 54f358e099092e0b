from itertools import islice
from random import Random

import pytest

from harness.errors import PlanError
from harness.plan.document import from_document
from workloads.base import Role
from workloads.driven import register_kind, set_kind
from workloads.registry import WORKLOADS, check_operations, workload_named

KAFKA = {"system": "apache-kafka", "system_options": {"version": "4.1.0"}}
RAFT = {"system": "kafka-raft", "system_options": {"version": "4.3.1"}, "backend": "sim"}
SYSTEMS = {"groups": KAFKA, "transactions": KAFKA, "appends": RAFT}
BUILT_IN = sorted(name for name in WORKLOADS if WORKLOADS.package(name) is None)
MADE = {
    **{name: workload_named(name, {}) for name in BUILT_IN},
    "groups in java": workload_named("groups", {"client": "java"}),
    "transactions in java": workload_named("transactions", {"client": "java"}),
    "driven set": set_kind("s", "", None).create({}),
    "driven registers": register_kind("r", "", None).create({"keys": 8, "write_fraction": 0.5}),
}


def plan_of(workload, **operation):
    document = {"workload": workload, **SYSTEMS.get(workload, {}), "schedule": [], "faults": []}
    return from_document({**document, "operations": [operation]})


@pytest.mark.parametrize("name", sorted(MADE))
@pytest.mark.parametrize("role", list(Role))
def test_whatever_a_workload_does_may_be_listed(name, role):
    workload = MADE[name]
    drawn = islice(workload.operations(3, Random(7), role), 300)

    every = (*workload.setup_operations(), *drawn, *workload.final_operations())
    check_operations(workload, [((), op.f, {"key": op.key, "value": op.value}) for op in every])


@pytest.mark.parametrize("name", sorted(MADE))
def test_what_an_operation_lacks_or_has_too_much_is_refused(name):
    workload = MADE[name]
    for f, shape in workload.shapes().items():
        for part in ("key", "value"):
            has_default = isinstance(shape.get(part), tuple)
            if not has_default:
                said = {"key": "x", "value": "x"}
                if part in shape:
                    del said[part]
                with pytest.raises(ValueError, match=r"is missing|has no|must be|unknown"):
                    check_operations(workload, [((), f, said)])


WRONG = [
    (
        "register",
        {"f": "cas"},
        "f: unknown operation 'cas' (known: read, write) of workload regist",
    ),
    ("register", {"f": "write", "value": "x"}, "key is missing"),
    ("register", {"f": "write", "key": "k0"}, "value is missing"),
    ("register", {"f": "write", "key": "k0", "value": 1}, "value must be a text of 1 to 10000 pri"),
    (
        "register",
        {"f": "write", "key": "k0", "value": "a\tb"},
        "value must be a text of 1 to 10000",
    ),
    (
        "register",
        {"f": "read", "key": "k9"},
        "key must be one of k0, k1, k2, k3, k4, k5, k6, k7, n",
    ),
    (
        "register",
        {"f": "read", "key": "k0", "value": "x"},
        "read of workload register has no value",
    ),
    ("append", {"f": "append", "key": "l0", "value": "a,b"}, "value must be an element such as w0"),
    ("partitions", {"f": "increment", "key": "p"}, "key must be one of p00, ..., p15, not 'p'"),
    (
        "set",
        {"f": "add", "key": "x", "value": {"partitions": 0}},
        "value.partitions must be a whole",
    ),
    ("set", {"f": "add", "key": "x", "value": {"size": 1}}, "value: unknown key 'size'"),
    ("topics", {"f": "delete", "key": "t00", "value": {"by": "name"}}, "value: unknown by 'name'"),
    (
        "brokers",
        {"f": "fence", "key": "1", "value": {"incarnation": "a"}},
        "value: behind is missi",
    ),
    ("brokers", {"f": "read", "key": "x"}, "key must be one of 0, 1, 2, 3, 4, 5, 6, 7, not 'x'"),
    ("reconfig", {"f": "change-voters", "value": {"change": "add"}}, "value: unknown change 'add'"),
    (
        "unique-ids",
        {"f": "allocate", "key": "ids"},
        "unknown key 'ids'; did you mean 'producer-ids'",
    ),
    ("log", {"f": "send", "key": "d0", "value": "x"}, "key must be one of d0-0, d0-1, d0-2, d0-3,"),
    ("log", {"f": "send", "key": "e0-0", "value": "x"}, "key must be one of d0-0"),
    (
        "log",
        {"f": "send", "key": "d0-0", "value": []},
        "value must be a text or a list of texts, n",
    ),
    ("log", {"f": "poll", "key": "d0-0", "value": -1}, "value must be a whole number from 0 to"),
    ("log", {"f": "renew-topic", "key": "d0-0"}, "key must be of a topic that nothing is sent to"),
    ("log", {"f": "fill-topic", "key": "e0-x", "value": 1}, "key must be a partition such as d0-1"),
    (
        "log",
        {"f": "fill-topic", "key": "e0-0", "value": 10**9},
        "value must be a whole number from",
    ),
    ("log", {"f": "wrong-request", "key": "d0-0", "value": "x"}, "value must be one of create: no"),
    ("groups", {"f": "consume", "key": "g0-0"}, "consume of workload groups has no key"),
    ("transactions", {"f": "txn", "value": []}, "value must be a list of 1 to 1000 steps, not []"),
    ("transactions", {"f": "txn", "value": [["r", "t0-0", None]]}, "value must append something"),
    (
        "transactions",
        {"f": "read", "value": [["append", "t0-0", "x"]]},
        'value: step 1 must be ["r", a partition, null]',
    ),
    (
        "transactions",
        {"f": "txn", "value": [["append", "t0-0", "x"], ["append", "t9-0", "y"]]},
        'value: step 2 must be ["r", a partition, null] or ["append", a partition, a text] or',
    ),
    (
        "transactions",
        {"f": "txn", "value": [["append", "t0-0", "x"], ["append", "t0-1", "x"]]},
        "value: appends 'x' again: no two may be alike",
    ),
    (
        "transactions",
        {"f": "abort", "value": [["append", "t0-0", "x"], *[["commit", "t0-0", 5]] * 2]},
        "value: commits 5 again: no two may be alike",
    ),
    ("appends", {"f": "send", "key": "log-0", "value": "-"}, "value must be a text that does not"),
]


@pytest.mark.parametrize(("workload", "operation", "line"), WRONG)
def test_an_operation_that_no_client_performs_is_refused_with_the_plan(workload, operation, line):
    with pytest.raises(PlanError) as caught:
        plan_of(workload, **operation)

    assert str(caught.value).startswith(f"operations 1: {line}")
    assert "\n" not in str(caught.value)


def test_an_operation_of_a_strand_is_refused_at_its_place():
    write = {"kind": "op", "key": "k0"}
    rows = [
        {"at_s": 1, "fault": "kill", "parameters": {"targets": "leader"}, "for_s": 3},
        {"steps": [{"kind": "wait"}, {**write, "value": "x"}, write]},
    ]

    with pytest.raises(PlanError, match=r"^schedule 2: steps 3: value is missing$"):
        from_document({"schedule": rows})
