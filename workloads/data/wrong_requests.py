"""Requests that a cluster refuses whatever becomes of it, and with which errors.

Each names what is illegal, or what is nowhere. Clients of workload `log` send them beside all else
(`workloads.data.log_client.WRONG`), and simulated worlds judge the answers, thing by thing
(`checkers.invariants.answers.WrongRefused`).

The errors are those of Kafka 4.3: ReplicationControlManager, ConfigurationControlManager,
FeatureControlManager, ClusterControlManager, ConfigAdminManager and KafkaApis.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from cluster.client.caller import metadata_of
from cluster.node.errors import ErrorCode
from cluster.node.kraft_version import KRAFT_VERSION
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i16, i32, i64
from cluster.values import valueclass

NOWHERE: Final = "no-such-topic"
"""A topic that nobody makes."""
_KNOWN: Final = "d0"
"""A topic of the workload, once there is one."""
_RENEWED: Final = "e0"
"""A topic that no reassignment is of."""
_NOBODY: Final = 9_999
"""A broker that nobody is."""
_NO_ID: Final = uuid.UUID("00000000-0000-4000-8000-00000000d1e5")
_TIMEOUT: Final = m.milliseconds(1_000)
_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = (2, 4, 8, 16, 32)
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_REPLICAS: Final = "leader.replication.throttled.replicas"
_TOO_LONG: Final = ",".join(["0:1"] * (2**13 + 1))
"""Of such replicas: no string of a record is as long."""

Errors = tuple[str, ...]
"""Names of errors, each of which is right."""


@valueclass
class WrongRequest:
    """A request, and the errors that are right for each thing that it names."""

    request: Any
    errors: tuple[Errors, ...]
    """In the order of the answer's rows; where it has none, of the whole request."""
    has_rows: bool = True
    """Whether every answer has a row for each thing, even one that no node looked at."""
    is_of_broker: bool = False
    """Whether a broker refuses it, which a controller might not."""


def errors_of(answer: Any) -> list[str]:
    """Return the name of the error of each thing that an answer is about, else of the whole."""
    rows = list(_rows(answer))
    return rows or [answer.error_code.name] * hasattr(answer, "error_code")


def has_rows(answer: Any) -> bool:
    """Whether an answer is about anything in particular."""
    return any(True for _ in _rows(answer))


def _rows(answer: Any) -> Iterator[str]:
    for name in answer.__dataclass_fields__:
        values = getattr(answer, name)
        for row in values if isinstance(values, tuple) else ():
            if hasattr(row, "error_code"):
                yield _UNDEFINED if _is_undefined(row) else row.error_code.name
            elif dataclasses.is_dataclass(row):
                yield from _rows(row)


def _is_undefined(row: Any) -> bool:
    """Whether a leader has answered that nothing is known of an epoch, which is no error."""
    return row.error_code is ErrorCode.none and getattr(row, "end_offset", 0) == d.NO_OFFSET


def _create(name: str, **given: Any) -> WrongRequest:
    return _of_topics([_creatable(name, **given)], given["error"])


def _creatable(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    placed: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
    **_: Any,
) -> m.CreatableTopic:
    by_index = placed.items() if isinstance(placed, Mapping) else placed
    return m.CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(factor),
        assignments=tuple(
            m.CreatableReplicaAssignment(
                partition_index=i32(index), broker_ids=tuple(map(BrokerId, brokers))
            )
            for index, brokers in by_index
        ),
        configs=tuple(
            m.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )


def _placement(*placed: tuple[int, Sequence[int]], **given: Any) -> WrongRequest:
    given = {"partitions": -1, "factor": -1, "error": "invalid_replica_assignment", **given}
    return _create(NOWHERE, placed=placed, **given)


def _of_topics(topics: Sequence[m.CreatableTopic], *errors: str) -> WrongRequest:
    request = m.CreateTopicsRequest(topics=tuple(topics), timeout=_TIMEOUT, validate_only=False)
    return WrongRequest(request, tuple((error,) for error in errors))


def _delete(*named: tuple[str | None, uuid.UUID | None], error: str) -> WrongRequest:
    topics = tuple(
        m.DeleteTopicState(name=None if name is None else TopicName(name), topic_id=topic_id)
        for name, topic_id in named
    )
    return WrongRequest(m.DeleteTopicsRequest(topics=topics, timeout=_TIMEOUT), ((error,),))


def _grow(name: str, count: int, *errors: str, placed: Sequence[int] = (), times: int = 1) -> Any:
    assignments = (m.CreatePartitionsAssignment(broker_ids=tuple(map(BrokerId, placed))),)
    topic = m.CreatePartitionsTopic(
        name=TopicName(name), count=i32(count), assignments=assignments if placed else None
    )
    request = m.CreatePartitionsRequest(
        topics=(topic,) * times, timeout=_TIMEOUT, validate_only=False
    )
    return WrongRequest(request, (errors,))


def _configure(
    kind: int, name: str, *changes: tuple[str, int, str | None], errors: str, **more: Any
) -> WrongRequest:
    configs = tuple(
        m.AlterableConfig(name=key, config_operation=i8(operation), value=value)
        for key, operation, value in changes
    )
    resource = m.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
    request = m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    return WrongRequest(request, (tuple(errors.split()),), **more)


def _change(
    kind: int,
    name: str,
    key: str,
    value: str | None,
    errors: str = "invalid_config",
    *,
    operation: int = _SET,
    is_of_broker: bool = False,
) -> WrongRequest:
    change = key, operation, value
    return _configure(kind, name, change, errors=errors, is_of_broker=is_of_broker)


_by_broker: Final = partial(_change, errors="invalid_request", is_of_broker=True)


def _describe(kind: int, name: str, error: str) -> WrongRequest:
    resource = m.DescribeConfigsResource(
        resource_type=i8(kind), resource_name=name, configuration_keys=None
    )
    request = m.DescribeConfigsRequest(resources=(resource,))
    return WrongRequest(request, ((error,),), is_of_broker=True)


def _reassign(name: str, *targets: Sequence[int] | None, errors: Sequence[Errors]) -> WrongRequest:
    partitions = tuple(
        m.ReassignablePartition(
            partition_index=i32(0),
            replicas=None if target is None else tuple(map(BrokerId, target)),
        )
        for target in targets
    )
    topic = m.ReassignableTopic(name=TopicName(name), partitions=partitions)
    request = m.AlterPartitionReassignmentsRequest(timeout=_TIMEOUT, topics=(topic,))
    return WrongRequest(request, tuple(errors), has_rows=False)


def _elect(kind: int, error: str) -> WrongRequest:
    asked = m.ElectLeadersTopicPartitions(topic=TopicName(NOWHERE), partitions=(i32(0), i32(1)))
    request = m.ElectLeadersRequest(
        election_type=i8(kind), topic_partitions=(asked,), timeout=_TIMEOUT
    )
    return WrongRequest(request, ((error,), (error,)))


def _end_of_epoch(topic: str, epoch: int, current: int, *errors: str) -> WrongRequest:
    partition = d.OffsetForLeaderPartition(
        partition=i32(0), current_leader_epoch=i32(current), leader_epoch=i32(epoch)
    )
    request = d.OffsetForLeaderEpochRequest(
        replica_id=BrokerId(d.CONSUMER),
        topics=(d.OffsetForLeaderTopic(topic=TopicName(topic), partitions=(partition,)),),
    )
    return WrongRequest(request, ((*errors, _UNKNOWN),), is_of_broker=True)


def _finalize(
    *named: str, level: int = 1, change: int = 1, error: str = "invalid_update_version"
) -> WrongRequest:
    updates = tuple(
        m.FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(change))
        for name in named
    )
    request = m.UpdateFeaturesRequest(timeout=_TIMEOUT, feature_updates=updates)
    return WrongRequest(request, ((error,),), has_rows=False)


def _whole(request: Any, error: str) -> WrongRequest:
    return WrongRequest(request, ((error,),), has_rows=False)


_CONFIG, _REQUEST = "invalid_config", "invalid_request"
_TOPIC_ERROR: Final = "invalid_topic_exception"
_UNKNOWN: Final = "unknown_topic_or_partition"
_UNDEFINED: Final = "undefined_epoch"
"""Of an epoch that no leader knows (KIP-101): an answer without an error, and without an offset."""
_NO_REPLICA: Final = "not_leader_or_follower"
"""Also of any topic, while a broker starts or stops."""
_NOT_LED: Final = (_NO_REPLICA, "kafka_storage_error")
_LATEST: Final = 2**31 - 1

WRONG: Final[Mapping[str, WrongRequest]] = {
    "create: no name": _create("", error=_TOPIC_ERROR),
    "create: a dot": _create(".", error=_TOPIC_ERROR),
    "create: a slash": _create("a/b", error=_TOPIC_ERROR),
    "create: a long name": _create("x" * 250, error=_TOPIC_ERROR),
    "create: the metadata": _create("__cluster_metadata", error="invalid_request"),
    "create: twice": _of_topics([_creatable(NOWHERE)] * 2, "invalid_request"),
    "create: no partition": _create(NOWHERE, partitions=0, error="invalid_partitions"),
    "create: too few": _create(NOWHERE, partitions=-2, error="invalid_partitions"),
    "create: no replica": _create(NOWHERE, factor=0, error="invalid_replication_factor"),
    "create: many replicas": _create(NOWHERE, factor=100, error="invalid_replication_factor"),
    "create: placed on nobody": _placement((0, [_NOBODY])),
    "create: placed nowhere": _placement((0, [])),
    "create: placed twice": _placement((0, [1]), (0, [1])),
    "create: placed on one twice": _placement((0, [1, 1])),
    "create: placed with a gap": _placement((0, [1]), (2, [1])),
    "create: placed unevenly": _placement((0, [1]), (1, [1, 2])),
    "create: placed and counted": _placement((0, [1]), partitions=1, error="invalid_request"),
    "create: placed and replicated": _placement((0, [1]), factor=1, error="invalid_request"),
    "create: no such configuration": _create(
        NOWHERE, configs={"no.such": "1"}, error="invalid_config"
    ),
    "create: no value": _create(NOWHERE, configs={"segment.ms": None}, error="invalid_config"),
    "create: no number": _create(NOWHERE, configs={"segment.ms": "x"}, error="invalid_config"),
    "create: a long value": _create(
        NOWHERE, configs={_REPLICAS: _TOO_LONG}, error="invalid_config"
    ),
    "create: contradictory lags": _create(
        NOWHERE,
        configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        error="invalid_config",
    ),
    "create: remote": _create(
        NOWHERE, configs={"remote.storage.enable": "true"}, error="invalid_config"
    ),
    "delete: nowhere": _delete((NOWHERE, None), error=_UNKNOWN),
    "delete: no id": _delete((None, _NO_ID), error="unknown_topic_id"),
    "delete: both": _delete((NOWHERE, _NO_ID), error="invalid_request"),
    "delete: twice": _delete((NOWHERE, None), (NOWHERE, None), error="invalid_request"),
    "delete: an id twice": _delete((None, _NO_ID), (None, _NO_ID), error="invalid_request"),
    "grow: nowhere": _grow(NOWHERE, 2, _UNKNOWN),
    "grow: twice": _grow(NOWHERE, 2, "invalid_request", times=2),
    "grow: to none": _grow(_KNOWN, 0, "invalid_partitions", _UNKNOWN),
    "grow: placed too few": _grow(_KNOWN, 999, "invalid_replica_assignment", _UNKNOWN, placed=[1]),
    "set: nowhere": _change(_TOPIC, NOWHERE, "segment.ms", "9", _UNKNOWN),
    "set: no topic": _change(_TOPIC, "", "segment.ms", "9", _REQUEST),
    "set: a slash": _change(_TOPIC, "a/b", "segment.ms", "9", _TOPIC_ERROR),
    "set: no such key": _change(_TOPIC, _KNOWN, "no.such", "9"),
    "set: no number": _change(_TOPIC, _KNOWN, "segment.ms", "x"),
    "set: below": _change(_TOPIC, _KNOWN, "segment.ms", "0"),
    "set: no policy": _change(_TOPIC, _KNOWN, "cleanup.policy", "keep"),
    "set: a long value": _change(_TOPIC, _KNOWN, _REPLICAS, _TOO_LONG),
    "set: no value": _change(_TOPIC, _KNOWN, "segment.ms", None, _REQUEST),
    "set: twice": _configure(
        _TOPIC,
        _KNOWN,
        ("segment.ms", _SET, "9"),
        ("segment.ms", _DELETE, None),
        errors="invalid_request",
    ),
    "append: no list": _change(_TOPIC, _KNOWN, "segment.ms", "9", operation=_APPEND),
    "set: no operation": _change(_TOPIC, _KNOWN, "segment.ms", "9", _REQUEST, operation=9),
    "set: no kind": _change(99, "x", "segment.ms", "9", "invalid_request unsupported_version"),
    "set: no group": _change(_GROUP, "", "consumer.session.timeout.ms", "45000", _REQUEST),
    "set: no key of groups": _change(_GROUP, "g", "segment.ms", "9"),
    "set: a short session": _change(_GROUP, "g", "consumer.session.timeout.ms", "1"),
    "set: a slow heartbeat": _change(_GROUP, "g", "consumer.heartbeat.interval.ms", "900000"),
    "set: no subscription": _change(_METRICS, "", "interval.ms", "500", _REQUEST),
    "set: no key of metrics": _change(_METRICS, "s", "segment.ms", "500", _REQUEST),
    "set: too often": _change(_METRICS, "s", "interval.ms", "99", _REQUEST),
    "set: no field": _change(_METRICS, "s", "match", "a=b"),
    "set: no expression": _change(_METRICS, "s", "match", "client_id=("),
    "set: no broker": _change(
        _BROKER, str(_NOBODY), "log.retention.ms", "9", "broker_id_not_registered"
    ),
    "set: no number of a broker": _change(_BROKER, "x", "log.retention.ms", "9", _REQUEST),
    "set: a broker below": _change(_BROKER, "-1", "log.retention.ms", "9", _REQUEST),
    "set: of one broker": _change(_BROKER, "1", "min.insync.replicas", "1"),
    "delete: of all brokers": _change(_BROKER, "", "min.insync.replicas", None, operation=_DELETE),
    "broker: read only": _by_broker(_BROKER, "1", "node.id", "7"),
    "broker: of a listener": _by_broker(_BROKER, "1", "ssl.keystore.location", "x"),
    "broker: not of all": _by_broker(_BROKER, "", "listeners", "PLAINTEXT://:9092"),
    "broker: no number": _by_broker(_BROKER, "", "num.io.threads", "x"),
    "broker: none for ever": _by_broker(_BROKER, "", "log.retention.ms", "0"),
    "broker: no override": _by_broker(_BROKER, "", "max.connections.per.ip.overrides", "x"),
    "broker: no connection": _by_broker(_BROKER, "", "max.connections.per.ip", "0"),
    "broker: no reporter": _by_broker(_BROKER, "", "metric.reporters", "no.Such"),
    "broker: no list": _by_broker(
        _BROKER, "", "num.io.threads", "8", errors=_CONFIG, operation=_APPEND
    ),
    "logger: appended": _by_broker(_LOGGER, "1", "root", "INFO", operation=_APPEND),
    "logger: deleted": _by_broker(_LOGGER, "1", "root", None, operation=_DELETE),
    "logger: of nobody": _by_broker(_LOGGER, "x", "root", "INFO"),
    "logger: nowhere": _by_broker(
        _LOGGER, "1", "no.such", "INFO", errors="invalid_config invalid_request"
    ),
    "logger: no level": _by_broker(
        _LOGGER, "1", "root", "LOUD", errors="invalid_config invalid_request"
    ),
    "describe: nowhere": _describe(_TOPIC, NOWHERE, _UNKNOWN),
    "describe: a slash": _describe(_TOPIC, "a/b", _TOPIC_ERROR),
    "describe: no broker": _describe(_BROKER, str(_NOBODY), "invalid_request"),
    "describe: no logger": _describe(_LOGGER, "", "invalid_request"),
    "describe: no group": _describe(_GROUP, "", "invalid_request"),
    "describe: no subscription": _describe(_METRICS, "", "invalid_request"),
    "describe: no kind": _describe(99, "x", "invalid_request"),
    "metadata: nowhere": WrongRequest(
        metadata_of([NOWHERE, "a/b"]), ((_UNKNOWN,), (_TOPIC_ERROR,)), is_of_broker=True
    ),
    "reassign: nowhere, twice": _reassign(
        NOWHERE, [1], [1], errors=((_UNKNOWN,), ("invalid_request",))
    ),
    **{
        f"reassign: {what}": _reassign(
            _KNOWN, target, errors=(("invalid_replica_assignment", _UNKNOWN),)
        )
        for what, target in (("nobody", [_NOBODY]), ("none", []), ("one twice", [1, 1]))
    },
    "reassign: nothing to cancel": _reassign(
        _RENEWED, None, errors=(("no_reassignment_in_progress", _UNKNOWN),)
    ),
    "epoch: nowhere": _end_of_epoch(NOWHERE, 0, d.NO_EPOCH, _NO_REPLICA),
    "epoch: later than all": _end_of_epoch(_KNOWN, _LATEST, d.NO_EPOCH, _UNDEFINED, *_NOT_LED),
    "epoch: not led yet": _end_of_epoch(_KNOWN, 0, _LATEST, "unknown_leader_epoch", *_NOT_LED),
    "elect: nowhere": _elect(0, _UNKNOWN),
    "elect: uncleanly nowhere": _elect(1, _UNKNOWN),
    "elect: no kind": _elect(7, "invalid_request"),
    "finalize: no feature": _finalize("no.such"),
    "finalize: no level": _finalize("group.version", level=99),
    "finalize: below": _finalize("group.version", level=-1),
    "finalize: no kind": _finalize("group.version", change=9),
    "finalize: twice": _finalize("no.such", "no.such", error="invalid_request"),
    "finalize: the voters twice": _finalize(*[KRAFT_VERSION] * 2, error="invalid_request"),
    "finalize: no level of voters": _finalize(KRAFT_VERSION, level=99),
    "finalize: voters and no feature": _finalize(KRAFT_VERSION, "no.such"),
    "finalize: back": _finalize("metadata.version", level=25),
    "finalize: losing metadata": _finalize("metadata.version", level=29, change=3),
    "unregister: nobody": _whole(
        m.UnregisterBrokerRequest(broker_id=BrokerId(_NOBODY)), "broker_id_not_registered"
    ),
    "ids: nobody": _whole(
        m.AllocateProducerIdsRequest(broker_id=BrokerId(_NOBODY), broker_epoch=i64(0)),
        "stale_broker_epoch",
    ),
    "resources: no kind": WrongRequest(
        m.ListConfigResourcesRequest(resource_types=(i8(99),)),
        (("unsupported_version",),),
        has_rows=False,
        is_of_broker=True,
    ),
}
"""By what is wrong."""
