"""Requests that ask for a right on the cluster, and are refused whole without it (ControllerApis).

Those that ask for a right on each resource are `access.screens`'. Kafka's brokers authorize what
they answer themselves, too; here a broker does so for DescribeAcls alone, what it forwards the
controller authorizes, and the data path is open to everybody (docs/security.md).
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
from cluster.node.protocol.messages import (
    AllocateProducerIdsRequest,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterUserScramCredentialsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    ElectLeadersRequest,
    EnvelopeRequest,
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
            AlterUserScramCredentialsRequest,
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
    AlterClientQuotasRequest: AclOperation.ALTER_CONFIGS,
}
"""What a request of a controller asks for; DescribeCluster asks a broker for nothing."""


def cluster_refusal(message: Any, access: Access) -> RequestError | None:
    """Return why a controller does not serve a request to its sender, None when it does."""
    operation = CLUSTER_OPERATIONS.get(type(message))
    if operation is None:
        return None
    try:
        if access.permits_on_cluster(operation):
            return None
    except RequestError as not_ready:
        return not_ready
    who = f"{access.origin.principal_type}:{access.origin.principal_name}"
    text = f"{who} does not have {operation.name} on the cluster, which this request needs."
    return RequestError(ErrorCode.cluster_authorization_failed, text)
