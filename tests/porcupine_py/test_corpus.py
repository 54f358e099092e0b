"""Porcupine's public histories get their known verdicts."""

import json

import pytest

from porcupine_py import (
    CheckResult,
    Event,
    EventKind,
    check_events_timeout,
    check_events_verbose,
    check_operations_timeout,
)
from porcupine_py.history import operations_of
from tests.porcupine_py import corpus
from tests.porcupine_py.models import CAS_REGISTER, KEY_VALUE


def events_of(entry, given):
    """The history's events as Porcupine's; an operation of unknown outcome never returns."""
    open_ids, events = {}, []
    for line in corpus.members()[entry["file"]].decode().splitlines():
        event = json.loads(line)
        process = event["process"]
        if event["type"] == "invoke":
            open_ids[process] = len(events)
            events.append(Event(process, EventKind.CALL, given(event), len(events)))
        elif event["type"] != "info":
            output = (event["type"], event["value"])
            events.append(Event(process, EventKind.RETURN, output, open_ids[process]))
    return events


def history(name):
    entry = corpus.expected()[name]
    if entry["model"] == "cas-register":
        return CAS_REGISTER, events_of(entry, lambda event: (event["f"], event["value"]))
    keyed = events_of(entry, lambda event: (event["f"], event["key"], event["value"]))
    return KEY_VALUE, keyed


def expected(name):
    return CheckResult.OK if corpus.expected()[name]["valid"] else CheckResult.ILLEGAL


@pytest.mark.parametrize("name", corpus.JUDGED)
def test_the_verdict_is_the_known_one(name):
    model, events = history(name)
    assert check_events_timeout(model, events, 0) is expected(name)


@pytest.mark.parametrize("name", ["etcd_000", "etcd_002", "kv_c10-ok", "kv_c10-bad"])
def test_operations_and_verbose_checks_agree(name):
    model, events = history(name)
    assert check_operations_timeout(model, operations_of(events), 0) is expected(name)
    assert check_events_verbose(model, events)[0] is expected(name)
