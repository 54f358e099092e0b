"""What a plan may say of each kind of fault, and what is refused in one line."""

import pytest

from nemeses.base import ParameterError
from nemeses.registry import FAULTS, check_fault, fault_named

NODES = ("n1", "n2", "n3")
ABOVE_ZERO = "must be a number above 0, at most 100"


def test_an_unknown_fault_is_refused_with_the_nearest_name():
    with pytest.raises(ParameterError, match="unknown fault 'partitoin'; did you mean 'partition'"):
        fault_named("partitoin")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("kill", {"targets": "leadr"}, "unknown target 'leadr'; did you mean 'leader'"),
        ("kill", {"targets": "node:n9"}, "unknown target 'node:n9'"),
        ("kill", {"targets": "leader,folower"}, "unknown target 'folower'; did you mean 'follow"),
        ("kill", {"targets": ""}, "unknown target ''"),
        ("kill", {"targets": ["leader"]}, "unknown target"),
        ("kill", {"target": "leader"}, "unknown parameter of kill 'target'"),
        ("kill", {"keep": "nothin"}, "unknown keep of kill 'nothin'; did you mean 'nothing'"),
        ("stop", {"keep": "any"}, "unknown parameter of stop 'keep'"),
        ("pause", {"graceful": True}, "unknown parameter of pause 'graceful'"),
        ("restart", {"graceful": "yes"}, "graceful of restart must be true or false"),
        ("upgrade", {"to": "latest"}, "unknown to of upgrade 'latest'"),
        ("upgrade", {"for": 1}, "unknown parameter of upgrade 'for'"),
        ("loss", {"percent": 0}, f"percent of loss {ABOVE_ZERO}, not 0"),
        ("loss", {"percent": True}, f"percent of loss {ABOVE_ZERO}, not True"),
        ("loss", {"procent": 5}, "did you mean 'percent'"),
        ("loss", {"direction": "out"}, "unknown direction of loss 'out'"),
        ("delay", {"delay_ms": 10, "jitter_ms": 20}, "jitter_ms of delay must not be above"),
        ("bandwidth", {"targets": "leaders"}, "did you mean 'leader'"),
        ("hold", {"types": "VoteRequest,Votes"}, "type of message 'Votes'; did you mean 'Vote"),
        ("hold", {"types": 3}, "types of hold must be text, not 3"),
        ("hold", {"links": "n1>n9"}, "unknown node 'n9'"),
        ("hold", {"then": "droop"}, "unknown then of hold 'droop'; did you mean 'drop'"),
        ("hold", {"targets": "leader"}, "unknown parameter of hold 'targets'"),
        ("timer-rate", {"rate": 21}, "rate of timer-rate must be a number from 0.05 to 20, not 21"),
        ("clock-jump", {"jump_ms": 0}, "jump_ms of clock-jump must not be 0: no effect"),
        ("clock-drift", {"rate": 1.0}, "rate of clock-drift must not be 1.0: no effect"),
        ("clock-strobe", {"offset_ms": 0}, "offset_ms of clock-strobe must not be 0: no effect"),
        ("bit-flip", {"at": 1.5}, "at of bit-flip must be a number from 0 to 1, not 1.5"),
        ("bit-flip", {"file": "snapshot"}, "'snapshot' .*index, log, partition, quorum-state"),
        ("truncate-file", {"file": "index"}, "unknown file of .* 'index' .*: log, partition"),
        ("disk-wipe", {"targets": "node:n1,all"}, "could be more than a minority"),
        ("disk-wipe", {"targets": "majority"}, "could be more than a minority"),
        ("disk-wipe", {"back_ms": -1}, "back_ms of disk-wipe must be a number from 0 to 600000"),
        ("voters", {"change": "remov"}, "did you mean 'remove'"),
        ("voters", {"targets": "all"}, "changes one voter"),
        ("voters", {"targets": "node:n1,node:n2"}, "changes one voter"),
        ("voters", {"change": "upgrade", "targets": "leader"}, "has no targets where change is"),
        ("resign", {"targets": "leadr"}, "unknown target 'leadr'; did you mean 'leader'"),
        ("snapshot", {"targets": "everybody"}, "unknown target"),
        ("finalize", {"level": "highest"}, "level of finalize must be latest, lower or a number"),
        ("finalize", {"level": -1}, "level of finalize must be latest, lower or a number"),
        ("finalize", {"level": True}, "level of finalize must be latest, lower or a number"),
        ("finalize", {"change": "downgrade"}, "unknown change of finalize 'downgrade'"),
        ("finalize", {"feature": 7}, "feature of finalize must be a name"),
        ("finalize", {"refused": 1}, "refused of finalize must be true or false"),
        ("finalize", {"targets": "all"}, "unknown parameter of finalize 'targets'"),
        ("partition", {"shape": "halfs"}, "unknown partition shape 'halfs'; did you mean 'halves'"),
        ("partition", {"shap": "halves"}, "parameter of partition 'shap'; did you mean 'shape'"),
        ("partition", {"shape": "halves", "direction": "random"}, "halves has no direction"),
        (
            "partition",
            {"shape": "one-way", "direction": "leader-to-folower"},
            "mean 'leader-to-follower'",
        ),
        ("partition", {"shape": "isolate", "direction": "outgoin"}, "did you mean 'outgoing'"),
        ("partition", {"shape": "isolate", "targets": "node:n1,leadr"}, "did you mean 'leader'"),
        ("partition", {"targets": "all"}, "leaves none to cut them off from"),
        ("partition", {"shape": "halves", "targets": "leader"}, "halves has no targets"),
        ("partition", {"shape": "links"}, "links needs links, such as n1>n2"),
        ("partition", {"shape": "links", "links": "n1>n2,n2>n4"}, r"unknown node 'n4' \(known: n1"),
        ("partition", {"shape": "links", "links": "n1>n1"}, "n1 has no link to itself"),
        ("partition", {"shape": "links", "links": "n1,n2"}, "written n1>n2 or n1-n2, not 'n1'"),
        ("partition", {"shape": "links", "links": 3}, "must be text such as n1>n2,n2-n3, not 3"),
        ("partition", {"shape": ["halves"]}, "unknown partition shape"),
    ],
)
def test_what_a_fault_does_not_take_is_refused_with_the_nearest_name(name, parameters, message):
    with pytest.raises(ParameterError, match=message):
        check_fault(name, parameters, NODES)


@pytest.mark.parametrize(
    ("name", "parameters", "count", "message"),
    [
        ("kill", {"targets": "minority"}, 2, "has no minority"),
        ("loss", {}, 1, "needs at least 2 nodes"),
        ("hold", {}, 1, "needs at least 2 nodes"),
        ("bit-flip", {}, 2, "needs at least 3 nodes"),
        ("partition", {"shape": "bridge"}, 2, "bridge needs at least 3 nodes"),
    ],
)
def test_what_needs_more_nodes_is_refused_and_never_chosen(name, parameters, count, message):
    nodes = NODES[:count]
    with pytest.raises(ParameterError, match=message):
        check_fault(name, parameters, nodes)
    options = FAULTS[name].options(nodes)
    assert [option for option in options if option.items() >= parameters.items()] == []


def refusal(name, option, nodes):
    try:
        check_fault(name, option, nodes)
    except ParameterError as error:
        return str(error)
    return None


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_option_of_every_fault_is_one_that_its_check_accepts(count):
    nodes = tuple(f"n{number}" for number in range(1, count + 1))
    for name, fault in FAULTS.items():
        options = fault.options(nodes)
        assert [refusal(name, option, nodes) for option in options] == [None] * len(options)
