"""Requests that ask for a right on the cluster, and are refused whole without it.

As in ControllerApis and KafkaApis. Those that ask for a right on each resource are
`access.screens`'. A broker's data path, metadata included, is open to everybody here
(docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.node.controller.access.codes import AclOperation
from cluster.node.controller.access.rights import Access
from cluster.node.controller.result import RequestError
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from cluster.node.protocol.data_messages import AlterReplicaLogDirsRequest
from cluster.node.protocol.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    EnvelopeRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)

CLUSTER_OPERATIONS: Final[Mapping[type[Any], AclOperation]] = {
    **dict.fromkeys(
        (
            VoteRequest,
            BeginQuorumEpochRequest,
            EndQuorumEpochRequest,
            FetchRequest,
            FetchSnapshotRequest,
            UpdateVoterRequest,
            AlterPartitionRequest,
            AssignReplicasToDirsRequest,
            AllocateProducerIdsRequest,
            BrokerHeartbeatRequest,
            BrokerRegistrationRequest,
            ControllerRegistrationRequest,
            EnvelopeRequest,
        ),
        AclOperation.CLUSTER_ACTION,
    ),
    **dict.fromkeys(
        (
            AddVoterRequest,
            RemoveVoterRequest,
            AlterPartitionReassignmentsRequest,
            CreateAclsRequest,
            DeleteAclsRequest,
            DescribeClusterRequest,
            ElectLeadersRequest,
            UnregisterBrokerRequest,
            UpdateFeaturesRequest,
        ),
        AclOperation.ALTER,
    ),
    **dict.fromkeys(
        (DescribeAclsRequest, DescribeQuorumRequest, ListPartitionReassignmentsRequest),
        AclOperation.DESCRIBE,
    ),
}
"""What a request that a controller serves asks for, forwarded to it or not."""
BROKER_OPERATIONS: Final[Mapping[type[Any], AclOperation]] = {
    DescribeAclsRequest: AclOperation.DESCRIBE,
    ListConfigResourcesRequest: AclOperation.DESCRIBE_CONFIGS,
    DescribeLogDirsRequest: AclOperation.DESCRIBE,
    AlterReplicaLogDirsRequest: AclOperation.ALTER,
    EnvelopeRequest: AclOperation.CLUSTER_ACTION,
}
"""What a request that a broker answers itself asks for."""


def cluster_refusal(
    message: Any,
    access: Access,
    operations: Mapping[type[Any], AclOperation] = CLUSTER_OPERATIONS,
) -> RequestError | None:
    """Return why a request is not served to its sender, None when it is."""
    operation = operations.get(type(message))
    if operation is None:
        return None
    try:
        if access.permits_on_cluster(operation):
            return None
    except RequestError as not_ready:
        return not_ready
    principal = f"{access.origin.principal_type}:{access.origin.principal_name}"
    text = f"{principal} does not have {operation.name} on the cluster, which this request needs."
    return RequestError(ErrorCode.cluster_authorization_failed, text)
