"""The client requests and responses, each in the highest version that this node serves.

Handlers take and return these classes only. What a client sent in an older version was lifted to
its class here, with the schema's defaults for fields that it could not send; what a handler returns
is lowered to the client's version (`cluster.node.protocol.convert`). Raft's own messages,
DescribeQuorum among them, are in `cluster.node.kraft.messages` and flat.

The classes are kio's, generated from Kafka's JSON schemas: frozen dataclasses with keyword-only
fields. `i8` to `i64`, `TopicName` and `BrokerId` are checked at type-checking time only: plain ints
and strs do at run time. Null uuids are None, durations are `datetime.timedelta`.
"""

from __future__ import annotations

import datetime as dt
from typing import cast

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.request import BrokerState as AlterPartitionBrokerState
from kio.schema.alter_partition.v3.request import PartitionData as AlterPartitionRequestPartition
from kio.schema.alter_partition.v3.request import TopicData as AlterPartitionRequestTopic
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.alter_partition.v3.response import PartitionData as AlterPartitionResponsePartition
from kio.schema.alter_partition.v3.response import TopicData as AlterPartitionResponseTopic
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.request import (
    DirectoryData as AssignReplicasToDirsRequestDirectory,
)
from kio.schema.assign_replicas_to_dirs.v0.request import (
    PartitionData as AssignReplicasToDirsRequestPartition,
)
from kio.schema.assign_replicas_to_dirs.v0.request import (
    TopicData as AssignReplicasToDirsRequestTopic,
)
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.assign_replicas_to_dirs.v0.response import (
    DirectoryData as AssignReplicasToDirsResponseDirectory,
)
from kio.schema.assign_replicas_to_dirs.v0.response import (
    PartitionData as AssignReplicasToDirsResponsePartition,
)
from kio.schema.assign_replicas_to_dirs.v0.response import (
    TopicData as AssignReplicasToDirsResponseTopic,
)
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.request import Feature as BrokerRegistrationFeature
from kio.schema.broker_registration.v4.request import Listener as BrokerRegistrationListener
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.request import Feature as ControllerRegistrationFeature
from kio.schema.controller_registration.v0.request import Listener as ControllerRegistrationListener
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor as DescribeTopicPartitionsResponseCursor,
)
from kio.schema.describe_topic_partitions.v0.response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions as ElectLeadersTopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult as ElectLeadersPartitionResult
from kio.schema.elect_leaders.v2.response import ReplicaElectionResult as ElectLeadersTopicResult
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import (
    ConfigResource as ListConfigResourcesResource,
)
from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, i64Timedelta, u16

from cluster.node.errors import ErrorCode


def milliseconds(duration_ms: float) -> i32Timedelta:
    """Kafka's int32 durations, as kio types them."""
    return cast("i32Timedelta", dt.timedelta(milliseconds=duration_ms))


NO_THROTTLE = milliseconds(0)
