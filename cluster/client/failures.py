"""What a Kafka error code says about the fate of the request that it answers.

An operation that ends in `fail` certainly had no effect and never will; everything that is not
certain is `info`. A code is definite only when a controller decides it before it could have
appended anything. NOT_CONTROLLER is one: this repository's controller gives it only to a request
that it has not appended, and answers UNKNOWN_SERVER_ERROR to an appended write when it loses its
leadership. Where a system is less clear, its kind says so (`SystemKind.indefinite`): Apache Kafka
gives NOT_CONTROLLER to appended writes, too, when it renounces.

Codes that no API of the controller answers are in neither set's spirit; they count as indefinite,
as does any code that this table has not heard of.
"""

from __future__ import annotations

from cluster.node.errors import ErrorCode

DEFINITE_ERRORS = frozenset(
    {
        # Refused for what was asked.
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.inconsistent_cluster_id,
        ErrorCode.invalid_topic_exception,
        ErrorCode.topic_already_exists,
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_config,
        ErrorCode.invalid_request,
        ErrorCode.invalid_update_version,
        ErrorCode.policy_violation,
        ErrorCode.resource_not_found,
        ErrorCode.duplicate_resource,
        ErrorCode.topic_deletion_disabled,
        ErrorCode.mismatched_endpoint_type,
        ErrorCode.unsupported_endpoint_type,
        ErrorCode.feature_update_failed,
        # Refused for what the server is or can.
        ErrorCode.not_controller,
        ErrorCode.unknown_controller_id,
        ErrorCode.unsupported_version,
        ErrorCode.operation_not_attempted,
        ErrorCode.throttling_quota_exceeded,
        # Refused for the principal that asks.
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.security_disabled,
        ErrorCode.unsupported_sasl_mechanism,
        ErrorCode.illegal_sasl_state,
        ErrorCode.sasl_authentication_failed,
        # Refused membership: brokers and voters.
        ErrorCode.stale_broker_epoch,
        ErrorCode.duplicate_broker_registration,
        ErrorCode.broker_id_not_registered,
        ErrorCode.invalid_registration,
        ErrorCode.ineligible_replica,
        ErrorCode.invalid_voter_key,
        ErrorCode.duplicate_voter,
        ErrorCode.voter_not_found,
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.preferred_leader_not_available,
        ErrorCode.eligible_leaders_not_available,
        ErrorCode.election_not_needed,
    }
)
"""Errors after which the operation certainly had no effect."""

INDEFINITE_ERRORS = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.broker_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.stale_controller_epoch,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.new_leader_elected,
        ErrorCode.reassignment_in_progress,
        ErrorCode.kafka_storage_error,
        ErrorCode.log_dir_not_found,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.invalid_record,
        ErrorCode.invalid_required_acks,
        ErrorCode.invalid_timestamp,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_compression_type,
        ErrorCode.offset_out_of_range,
        ErrorCode.offset_not_available,
        ErrorCode.offset_moved_to_tiered_storage,
        ErrorCode.invalid_fetch_size,
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
        ErrorCode.listener_not_found,
        ErrorCode.inconsistent_voter_set,
        ErrorCode.snapshot_not_found,
        ErrorCode.position_out_of_range,
        ErrorCode.principal_deserialization_failure,
        ErrorCode.rebootstrap_required,
        # Groups, transactions, tokens, telemetry: not the controller's.
        ErrorCode.offset_metadata_too_large,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.illegal_generation,
        ErrorCode.inconsistent_group_protocol,
        ErrorCode.invalid_group_id,
        ErrorCode.unknown_member_id,
        ErrorCode.invalid_session_timeout,
        ErrorCode.rebalance_in_progress,
        ErrorCode.invalid_commit_offset_size,
        ErrorCode.group_authorization_failed,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.duplicate_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_transaction_timeout,
        ErrorCode.concurrent_transactions,
        ErrorCode.transaction_coordinator_fenced,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.transactional_id_not_found,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_producer_id,
        ErrorCode.producer_fenced,
        ErrorCode.delegation_token_auth_disabled,
        ErrorCode.delegation_token_not_found,
        ErrorCode.delegation_token_owner_mismatch,
        ErrorCode.delegation_token_request_not_allowed,
        ErrorCode.delegation_token_authorization_failed,
        ErrorCode.delegation_token_expired,
        ErrorCode.invalid_principal_type,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
        ErrorCode.member_id_required,
        ErrorCode.group_max_size_reached,
        ErrorCode.fenced_instance_id,
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.unstable_offset_commit,
        ErrorCode.unacceptable_credential,
        ErrorCode.fenced_member_epoch,
        ErrorCode.unreleased_instance_id,
        ErrorCode.unsupported_assignor,
        ErrorCode.stale_member_epoch,
        ErrorCode.unknown_subscription_id,
        ErrorCode.telemetry_too_large,
        ErrorCode.invalid_record_state,
        ErrorCode.share_session_not_found,
        ErrorCode.invalid_share_session_epoch,
        ErrorCode.fenced_state_epoch,
        ErrorCode.invalid_regular_expression,
        ErrorCode.streams_invalid_topology,
        ErrorCode.streams_invalid_topology_epoch,
        ErrorCode.streams_topology_fenced,
        ErrorCode.share_session_limit_reached,
    }
)
"""Errors after which the operation may have had its effect, or may have it yet."""


REFUSES_APPEND = frozenset(
    {
        # Not here, or not now.
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.not_enough_replicas,
        ErrorCode.throttling_quota_exceeded,
        # Refused for what was sent.
        ErrorCode.invalid_required_acks,
        ErrorCode.invalid_topic_exception,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_compression_type,
        ErrorCode.unsupported_version,
        ErrorCode.policy_violation,
        # Refused for the producer, or for the principal.
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.unknown_producer_id,
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)
"""Errors that a leader may decide before it appends."""


def proves_no_append(error: ErrorCode, base_offset: int) -> bool:
    """Whether a Produce that was answered so certainly appended nothing, and never will.

    A leader that is deposed, or loses the partition, while it waits for its followers gives some of
    these errors to what it has appended, too (`DelayedProduce.tryComplete` in Kafka). Its answer
    then still has the offset, which a refusal before the append does not have.
    """
    return error in REFUSES_APPEND and base_offset < 0


def is_definite(error: ErrorCode) -> bool:
    """Whether a request answered with `error` certainly had no effect."""
    assert error is not ErrorCode.none, "success is no error"
    return error in DEFINITE_ERRORS
