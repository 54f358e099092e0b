"""Porcupine's public histories get their known verdicts."""

import json
import tarfile
from functools import cache
from pathlib import Path

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
from tests.porcupine_py.models import CAS_REGISTER, KEY_VALUE

ARCHIVE = Path(__file__).parents[1] / "data" / "histories" / "porcupine.tar.gz"


@cache
def members():
    with tarfile.open(ARCHIVE) as archive:
        files = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in files}


def known():
    listed = json.loads(members()["expected.json"])
    return {name: entry for name, entry in listed.items() if entry["valid"] is not None}


def events_of(entry, given):
    """The history's events as Porcupine's; an operation of unknown outcome never returns."""
    open_ids, events = {}, []
    for line in members()[entry["file"]].decode().splitlines():
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
    entry = known()[name]
    if entry["model"] == "cas-register":
        return CAS_REGISTER, events_of(entry, lambda event: (event["f"], event["value"]))
    keyed = events_of(entry, lambda event: (event["f"], event["key"], event["value"]))
    return KEY_VALUE, keyed


def expected(name):
    return CheckResult.OK if known()[name]["valid"] else CheckResult.ILLEGAL


def test_the_corpus_is_whole():
    assert len(known()) == 106
    assert {expected(name) for name in known()} == {CheckResult.OK, CheckResult.ILLEGAL}


@pytest.mark.parametrize("name", sorted(known()))
def test_the_verdict_is_the_known_one(name):
    model, events = history(name)
    assert check_events_timeout(model, events, 0) is expected(name)


@pytest.mark.parametrize("name", ["etcd_000", "etcd_002", "kv_c10-ok", "kv_c10-bad"])
def test_operations_and_verbose_checks_agree(name):
    model, events = history(name)
    assert check_operations_timeout(model, operations_of(events), 0) is expected(name)
    assert check_events_verbose(model, events)[0] is expected(name)
