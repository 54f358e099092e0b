"""Levels of features in a log, by what was asked for and what nodes support."""

from dataclasses import replace
from typing import Any

import pytest

from checkers.evidence import Evidence, LogRecord, TraceEvent
from checkers.evidence.extent import WHOLE
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes import records
from checkers.nodes.upgrades import check
from checkers.run_input import RunInput
from checkers.verdict import Status

METADATA = "metadata.version"
REFUSED = "invalid_update_version"
OLD, NEW = "4.3.1, commit a1", "4.4.0, commit b2"


def level(value: int, name: str = METADATA) -> tuple[str, dict[str, Any]]:
    return "FeatureLevelRecord", {"name": name, "featureLevel": value}


def kraft(value: int) -> tuple[str, dict[str, Any]]:
    return "control:KRAFT_VERSION", {"kraftVersion": value}


def led(number: int) -> tuple[str, dict[str, Any]]:
    return "control:LEADER_CHANGE", {"leaderId": number}


def registered(number: int, most: int, role: str = "Controller") -> tuple[str, dict[str, Any]]:
    feature = {"name": METADATA, "minSupportedVersion": 7, "maxSupportedVersion": most}
    return f"Register{role}Record", {f"{role.lower()}Id": number, "features": [feature]}


def note(f: str, at_s: float, *, verified: bool = True, **detail: Any) -> Event:
    value = {"phase": "inject", "fault": f, "targets": [], "verified": verified, "detail": detail}
    kind = EventType.OK if verified else EventType.INFO
    return Event(0, int(at_s * 1e9), NEMESIS, kind, f, value=value)


def asked(value: int, *answers: str, feature: str = METADATA, change: str = "upgrade") -> Event:
    found = {"feature": feature, "level": value, "change": change, "answers": list(answers)}
    return note("finalize", 30, **found)


def upgraded(node: str, *, verified: bool = True, **detail: Any) -> Event:
    of = {"from": {node: OLD}, "to": {node: NEW}}
    return note("upgrade", 20, verified=verified, **of, **detail)


GOOD = (kraft(0), level(30), *(registered(number, 33) for number in (1, 2, 3)), level(33))
ASKED = asked(33, "none")


def run_of(held=GOOD, notes=(ASKED,), *, traces=None, extent=WHOLE, logs=None):
    log = [LogRecord("n1", at, 1, at, kind, value) for at, (kind, value) in enumerate(held)]
    logs = {"n1": log, "n2": log} if logs is None else logs
    evidence = Evidence(["n1", "n2"], logs, {}, traces or {}, {})
    return RunInput(list(notes), [], evidence, extent)


def judge(held=GOOD, notes=(ASKED,), *, steps=None, **more):
    return check(run_of(held, notes, **more), {"steps": steps or {}})


def judge_setbacks(held, notes=(ASKED,), **more):
    return records.check(run_of(held, notes, **more), {"workload": "register", "traced": []})


def kinds(result) -> list[str]:
    return [str(anomaly["kind"]) for anomaly in result.anomalies]


def test_levels_that_were_asked_for_pass():
    result = judge(notes=[ASKED, asked(32, REFUSED), upgraded("n1")])
    assert result.status is Status.PASS, result.summary
    assert result.statistics["levels"] == {METADATA: 33, "kraft.version": 0}


@pytest.mark.parametrize("feature", [METADATA, "kraft.version"])
def test_a_level_never_goes_back(feature):
    held = [*GOOD, kraft(1), kraft(0)] if feature != METADATA else [*GOOD, level(30)]
    for notes in ((ASKED,), ()):  # with and without a change that was asked for
        result = judge_setbacks(held, notes)
        assert result.status is Status.FAIL
        [anomaly] = result.anomalies
        assert (anomaly["kind"], anomaly["feature"]) == ("level-went-back", feature)


def test_a_downgrade_that_was_accepted_is_one():
    safe = asked(30, "none", change="safe-downgrade")
    assert judge_setbacks([*GOOD, level(30)], [ASKED, safe]).status is Status.PASS
    unknown = asked(30, "TIMED_OUT", change="safe-downgrade")
    assert judge_setbacks([*GOOD, level(30)], [ASKED, unknown]).status is Status.PASS
    assert judge_setbacks([*GOOD, level(29)], [ASKED, safe]).status is Status.FAIL


def test_a_downgrade_is_one_for_each_request_that_may_have_been_accepted():
    twice = [*GOOD, level(30), level(33), level(30)]
    once = asked(30, "none", change="safe-downgrade")
    assert kinds(judge_setbacks(twice, [ASKED, once])) == ["level-went-back"]
    again = asked(30, "TIMED_OUT", "none", change="safe-downgrade")
    assert judge_setbacks(twice, [ASKED, again]).status is Status.PASS, "the first may come late"


def test_a_refused_downgrade_changes_nothing():
    run = ([*GOOD, level(30)], [ASKED, asked(30, REFUSED, change="safe-downgrade")])
    assert kinds(judge_setbacks(*run)) == ["level-went-back"]
    assert kinds(judge(*run)) == ["refused-change-made"]


def test_a_refused_upgrade_changes_nothing():
    result = judge(notes=[asked(33, REFUSED)])
    assert kinds(result) == ["refused-change-made"]
    assert judge(notes=[asked(33, "TIMED_OUT", REFUSED)]).status is Status.PASS
    assert judge(notes=[asked(33, REFUSED), ASKED]).status is Status.PASS


def test_a_change_that_a_run_was_broken_off_in_may_have_been_made():
    cut = replace(WHOLE, finished=False)
    for feature, is_sure in ((METADATA, False), ("kraft.version", True)):
        back = (*GOOD, kraft(1), kraft(0)) if is_sure else (*GOOD, level(30))
        assert judge_setbacks(back).status is Status.FAIL
        judged = judge_setbacks(back, extent=cut)
        assert judged.status is (Status.FAIL if is_sure else Status.UNKNOWN), feature
    refused = asked(30, REFUSED, change="safe-downgrade")
    assert judge((*GOOD, level(30)), (ASKED, refused), extent=cut).status is Status.UNKNOWN


def test_an_acknowledged_level_is_in_the_log():
    assert kinds(judge(GOOD[:-1])) == ["level-lost"]
    missing = judge(GOOD[:-1], logs={"n1": [LogRecord("n1", 0, 1, 0, *level(30))]})
    assert missing.status is Status.UNKNOWN, "the log of n2 may hold it"
    cut = judge(GOOD[:-1], extent=replace(WHOLE, finished=False))
    assert (cut.status, kinds(cut)) == (Status.UNKNOWN, ["level-lost"])


def test_kraft_version_is_acknowledged_by_its_control_record():
    wanted = asked(1, "none", feature="kraft.version")
    assert judge([*GOOD, kraft(1)], [ASKED, wanted]).status is Status.PASS
    result = judge([*GOOD, level(1, "kraft.version")], [ASKED, wanted])
    assert (result.status, kinds(result)) == (Status.FAIL, ["level-lost"])
    assert result.anomalies[0]["feature"] == "kraft.version"


def test_a_level_that_was_in_force_before_it_was_asked_for_needs_no_record():
    again = note("finalize", 30, feature="kraft.version", level=1, before=1, answers=["none"])
    records = [*GOOD[1:], level(1, "kraft.version")]
    assert judge(records, [ASKED, again]).status is Status.PASS


@pytest.mark.parametrize("altered", ["n1", "n2"])
def test_a_record_of_a_finalized_level_that_one_log_dropped_is_found(altered):
    records = [*GOOD, registered(4, 33)]
    whole = [LogRecord("n1", at, 1, at, kind, value) for at, (kind, value) in enumerate(records)]
    [finalized] = [record for record in whole if record.value.get("featureLevel") == 33]
    other = "n2" if altered == "n1" else "n1"
    dropped = [record for record in whole if record is not finalized]
    result = judge(logs={altered: dropped, other: whole})
    assert result.status is Status.FAIL
    assert {(a["kind"], a.get("node")) for a in result.anomalies} >= {("level-lost", altered)}
    behind = [record for record in whole if record.offset < finalized.offset]
    assert judge(logs={altered: behind, other: whole}).status is Status.PASS
    cut = [*behind, *(replace(r, epoch=2) for r in whole if r.offset >= finalized.offset)]
    assert "level-lost" not in kinds(judge(logs={altered: cut, other: whole})), "another epoch's"


@pytest.mark.parametrize("role", ["Controller", "Broker"])
def test_a_node_kept_at_the_old_release_while_the_level_is_raised_by_force(role):
    kept = (kraft(0), level(30), registered(1, 33), registered(3, 30, role), level(33))
    result = judge(kept)
    assert result.status is Status.FAIL
    [anomaly] = result.anomalies
    assert (anomaly["kind"], anomaly["node"], anomaly["offset"]) == ("above-support", "n3", 4)
    assert "33" in anomaly["explanation"]
    assert f"{role.lower()} n3 supports 30" in anomaly["explanation"]


def test_a_controller_that_leads_may_support_more_than_the_log_says_of_it_yet():
    raised = (registered(1, 33), registered(3, 30), led(3), level(33))
    assert judge([*raised, registered(3, 33)]).status is Status.PASS
    assert kinds(judge(raised)) == ["above-support"], "it never said so"
    assert kinds(judge([*raised, registered(3, 30)])) == ["above-support"]
    assert kinds(judge([*raised[:2], led(1), level(33), registered(3, 33)])) == ["above-support"]


def test_a_node_that_does_not_support_a_level_in_force_is_not_registered():
    result = judge([*GOOD, registered(2, 30)])
    assert [(a["kind"], a["node"], a["offset"]) for a in result.anomalies] == [
        ("above-support", "n2", 6)
    ]
    left = ("UnregisterBrokerRecord", {"brokerId": 3})
    assert judge([level(30), registered(3, 30, "Broker"), left, level(33)]).status is Status.PASS


def test_an_upgrade_that_did_not_take_effect_is_no_pass():
    why = {"reason": f"n2 printed {OLD}, not {NEW}"}
    result = judge(notes=[ASKED, upgraded("n1"), upgraded("n2", verified=False, **why)])
    assert result.status is Status.UNKNOWN
    assert all(name in result.summary for name in ("n2", OLD, NEW))


@pytest.mark.parametrize(("at_s", "status"), [(40, Status.PASS), (10, Status.UNKNOWN)])
def test_a_node_that_prints_its_release_late_was_upgraded(at_s, status, monkeypatch):
    monkeypatch.setattr(Evidence, "run_ns", lambda _, event: event.time_ns)
    said = {"version": "4.4.0", "commit": "b2"}
    traces = {"n2": [TraceEvent("n2", 1, int(at_s * 1e9), "release", said)]}
    late = upgraded("n2", verified=False, reason="n2 printed no release")
    assert judge(notes=[ASKED, late], traces=traces).status is status


def test_every_step_of_the_plan_takes_effect():
    assert judge(steps={"finalize": 1}).status is Status.PASS
    result = judge(steps={"finalize": 1, "upgrade": 3}, notes=[ASKED, upgraded("n1")])
    assert result.status is Status.UNDER_EXERCISED
    assert result.summary == "1 of 3 steps of fault upgrade took effect"


def test_a_level_that_is_final_already_counts_only_behind_the_last_upgrade():
    def raised(at_s: float) -> Event:
        found = {"before": 33, "level": 33, "change": "upgrade", "answers": ["none"]}
        return note("finalize", at_s, feature=METADATA, **found)

    steps = {"upgrade": 1, "finalize": 1}
    assert judge(notes=[raised(30), upgraded("n1")], steps=steps).status is Status.PASS
    early = judge(notes=[raised(10), upgraded("n1")], steps=steps)
    assert early.status is Status.UNDER_EXERCISED
    assert early.summary == "0 of 1 steps of fault finalize took effect"
    back = note("upgrade", 40, **{"from": {"n1": NEW}, "to": {"n1": OLD}})
    again = judge(notes=[upgraded("n1"), raised(30), back], steps=steps)
    assert again.status is Status.PASS, again.summary


GROUP = "group.version"


def test_a_feature_that_a_node_does_not_name_is_beyond_its_support():
    """As Kafka has it: who does not know a feature supports level 0 of it alone."""
    result = judge([*GOOD, level(1, GROUP)])
    assert result.status is Status.FAIL
    assert {(a["kind"], a["feature"]) for a in result.anomalies} == {("above-support", GROUP)}
    assert {a["node"] for a in result.anomalies} == {"n1", "n2", "n3"}


@pytest.mark.parametrize("name", [GROUP, "kraft.version"])
def test_level_0_and_the_level_of_raft_ask_nothing_of_a_registration(name):
    value = 0 if name == GROUP else 1
    assert judge([*GOOD, level(value, name)]).status is Status.PASS


def test_a_registration_without_a_list_of_features_says_nothing():
    bare = ("RegisterControllerRecord", {"controllerId": 4})
    assert judge([*GOOD[:2], bare, *GOOD[2:]]).status is Status.PASS


def asked_of_absent(value: int, *answers: str, before: int = 0) -> Event:
    found = {"feature": GROUP, "level": value, "change": "upgrade", "before": before}
    return note("finalize", 30, answers=list(answers), **found)


def test_level_0_of_an_absent_feature_needs_no_record():
    assert judge(notes=[ASKED, asked_of_absent(0, "none")]).status is Status.PASS
    lost = judge(notes=[ASKED, asked_of_absent(0, "none", before=1)])
    assert (lost.status, kinds(lost)) == (Status.FAIL, ["level-lost"])


def test_a_refused_level_of_an_absent_feature_is_in_no_record():
    supported = registered(1, 33)
    supported[1]["features"].append({"name": GROUP, "maxSupportedVersion": 1})
    records = [*GOOD[:2], supported, GOOD[-1], level(1, GROUP)]
    refused = asked_of_absent(1, REFUSED)
    result = judge(records, [ASKED, refused])
    assert (result.status, kinds(result)) == (Status.FAIL, ["refused-change-made"])
    # The level that a feature began with was not made by what asked for it again.
    again = asked_of_absent(1, REFUSED, before=2)
    lowered = note("finalize", 25, feature=GROUP, level=2, change="upgrade", answers=["none"])
    supported[1]["features"][-1]["maxSupportedVersion"] = 2
    assert judge([*records, level(2, GROUP)], [ASKED, lowered, again]).status is Status.PASS
    # Nor was it where the feature was taken away in between.
    off = note("finalize", 26, feature=GROUP, level=0, change="safe-downgrade", answers=["none"])
    assert judge([*records, level(0, GROUP)], [ASKED, off, refused]).status is Status.PASS
