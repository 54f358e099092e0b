"""Mutants that no world of the simulation can tell from the true node, each with why."""

from __future__ import annotations

from typing import Final

_TRACE: Final = "an event of the trace: what the node does is the same"
_EARLIER: Final = "made as the module is read, before any mutant is applied"
_NO_REPLICA: Final = "nobody waits for, fetches or moves what is no replica"
_ONE_PART: Final = "no request here makes as many records as a part holds: there is one part"
_WHOLE: Final = "nothing here compacts a log: each batch begins where the one before ended"
_NOTED: Final = "`appends` notes the same Fetch before the log grows: followers fetch in sessions"
_TEXT: Final = "the text of an error, by which nothing is judged"

EQUIVALENT: Final[dict[str, str]] = {
    "X:log.batch.compression:_inflate_into_room:extreme:0": (
        "a batch of a megabyte asks for less room than is allowed, and inflates to the same"
    ),
    "M36E": (
        "who is elected again at once has cut nothing: what it appended is acknowledged by all"
    ),
    "X:controller.apis.write_apis:WriteApis._handler:number:0": (
        "a request waits one per mille longer, which nothing bounds so closely"
    ),
    "X:controller.partitions.alter_partition:_alter:connector:0": (
        "a topic that is gone has no partitions: another error, which a leader treats alike"
    ),
    "X:controller.metadata.timeline:IndexedMap.keys_with:always:0": (
        "an index that is there is built again, with the same content"
    ),
    "X:broker.lifecycle.registration:BrokerLifecycleManager._backoff_ms:number:1": (
        "ten doublings of the back-off are more than any heartbeat interval, which bounds it"
    ),
    "X:log.metadata.log:Log._last_record_epoch:number:1": (
        "every record of a metadata log has an epoch, and none has epoch 0"
    ),
    "X:kraft.quorum.accumulator:BatchAccumulator.drain:number:0": (
        "what is prepared and closed early waits for its permission, and goes without lingering"
    ),
    "X:kraft.quorum.leader_state:Leader._voter:relation:1": (
        "who has no directory yet has the one object that is none; the other branch is for copies"
    ),
    "X:kraft.request_manager:RequestManager.ready_at_ms:never:0": (
        "nobody asks for a node that is ready, and was asked nothing"
    ),
    "X:broker.serving.fetch:_Delayed._find:never:0": (
        "who names an epoch asks its leader, and who names none names a rack"
    ),
    "X:broker.replication.partition:Follower.on_fetch:extreme:0": _NOTED,
    "X:controller.partitions.alter_partition:alter_partition:truth:0": (
        "each request here changes fewer partitions than one part holds: one batch as well"
    ),
    "X:broker.serving.fetch:_error_result:always:0": (
        "no client or follower reads the offsets of an error"
    ),
    "X:broker.replication.partition:Follower.on_fetch:relation:0": _NOTED,
    "X:log.data.data_log:DataLog.flush:left-out:0": (
        "a log is flushed as it begins to move or takes over, which ends as its folder goes offline"
    ),
    "X:controller.partitions.alter_partition:_is_legal_recovery:relation:1": (
        "no leader asks to go on recovering: each change of an ISR says that it has"
    ),
    "X:log.storage.recovery:_pairs:connector:0": _TEXT,
    "X:controller.metadata.result:ItemError.__init__:left-out:0": (
        "an answer has its text from `api_error`"
    ),
    "X:controller.core.appending:Appender.append:number:0": (
        "where nothing was appended nobody looks at the offset of the last record"
    ),
    "X:broker.replication.replica_manager:ReplicaManager._start_moved:always:0": _NO_REPLICA,
    "X:broker.replication.replica:Replica._ask_offset:number:0": (
        "no leader looks at the isolation: none has open transactions"
    ),
    "X:kraft.quorum.quorum_state:QuorumState.to_follower:never:4": (
        "no epoch has two leaders, of whom this condition would refuse the second"
    ),
    "X:kraft.snapshot_store:SnapshotFile.discard:left-out:0": (
        "a file that was given up is nobody's download any more: what comes for it is dropped"
    ),
    "X:log.metadata.log:Log._truncate_files:relation:0": (
        "a log is cut by an answer, and fetched for when it is durable: its tail is on the disk"
    ),
    "X:log.storage.tail:Tail.append:never:0": _WHOLE,
    "X:controller.core.appending:Appender._go_on:relation:0": _ONE_PART,
    "X:controller.core.controller:QuorumController._write_failed:always:1": _ONE_PART,
    "X:broker.replication.fetcher_manager:ReplicaFetcherManager.on_move:left-out:0": (
        "nobody waits for where a follower's log begins but who deletes records: then the leader's "
        "begins later, which it answers the follower, whose position is named afterwards anyway"
    ),
    "X:broker.replication.fetcher_manager:ReplicaFetcherManager.remove:left-out:1": (
        "a fetcher that has no partition left asks for nothing more, and takes nothing"
    ),
    "X:broker.replication.partition:Partition.takes:relation:0": (
        "no change of an ISR that a leader asks for leaves it as it is"
    ),
    "X:broker.serving.config_admin:_check_broker:left-out:0": (
        "`incremental_changes` refuses the same, with another text"
    ),
    "X:broker.serving.config_admin:_response:truth:0": (
        "there is an error, or none, for each resource"
    ),
    "X:log.metadata.log:Log._should_roll:always:1": (
        "each batch of a metadata log has its leader's time, which is never below 0"
    ),
    "X:controller.brokers.broker_lifecycle:BrokerHeartbeatManager.note_arrival:always:0": (
        "a heartbeat is taken in the turn in which it came, and makes the session: nothing here "
        "holds the queue, and of an epoch that nobody has nobody looks for a session"
    ),
    "X:controller.records.wire:Nullable.__init__:left-out:0": _EARLIER,
    "X:kraft.outbound:OutboundRequests._send_fetch:left-out:0": _TRACE,
    "X:kraft.core:RaftCore.report_contradiction:left-out:0": _TRACE,
    "X:kraft.core:RaftCore.follower_high_watermark_moved:left-out:0": _TRACE,
    "X:kraft.quorum.control_state:ControlState._take:number:0": (
        "no record of a log has kraft.version 0: it is finalized upwards alone"
    ),
    "X:kraft.quorum.control_state:ControlState.forget_before:left-out:0": (
        "older voters than the log begins with stay in memory: nobody asks for them"
    ),
    "X:controller.records.schema:field_table:always:0": _EARLIER,
    "X:controller.metadata.replay:_feature_level:sum:0": _TEXT,
    "X:broker.replication.replica_manager:ReplicaManager._start_moved:connector:0": _NO_REPLICA,
    "X:log.data.data_files:DataFiles._roll:left-out:1": _WHOLE,
}
"""Id -> the argument."""
