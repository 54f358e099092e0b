"""What a Kafka error code says about the fate of the request that it answers.

An operation that ends in `fail` certainly had no effect and never will; everything that is not
certain is `info`. A code is definite only when a controller decides it before it could have
appended anything. NOT_CONTROLLER is one: this repository's controller gives it only to a request
that it has not appended, and answers UNKNOWN_SERVER_ERROR to an appended write when it loses its
leadership. Where a system is less clear, its kind says so (`SystemKind.indefinite`): Apache Kafka
gives NOT_CONTROLLER to appended writes, too, when it renounces.

Every other code is indefinite, known to this module or not.
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
