"""kafka-python's message classes. It reads its schemas in a way that Python 3.11 deprecates."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin as admin
    import kafka.protocol.consumer as consumer
    import kafka.protocol.metadata as metadata
    import kafka.protocol.producer as producer

from cluster.node.protocol.apis import ApiKey

MESSAGES = {
    ApiKey.API_VERSIONS: (metadata.ApiVersionsRequest, metadata.ApiVersionsResponse),
    ApiKey.METADATA: (metadata.MetadataRequest, metadata.MetadataResponse),
    ApiKey.DESCRIBE_CLUSTER: (admin.DescribeClusterRequest, admin.DescribeClusterResponse),
    ApiKey.CREATE_TOPICS: (admin.CreateTopicsRequest, admin.CreateTopicsResponse),
    ApiKey.DELETE_TOPICS: (admin.DeleteTopicsRequest, admin.DeleteTopicsResponse),
    ApiKey.CREATE_PARTITIONS: (admin.CreatePartitionsRequest, admin.CreatePartitionsResponse),
    ApiKey.DESCRIBE_CONFIGS: (admin.DescribeConfigsRequest, admin.DescribeConfigsResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        admin.IncrementalAlterConfigsRequest,
        admin.IncrementalAlterConfigsResponse,
    ),
    ApiKey.DESCRIBE_QUORUM: (admin.DescribeQuorumRequest, admin.DescribeQuorumResponse),
    ApiKey.DESCRIBE_LOG_DIRS: (admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        admin.DescribeTopicPartitionsRequest,
        admin.DescribeTopicPartitionsResponse,
    ),
    ApiKey.UPDATE_FEATURES: (admin.UpdateFeaturesRequest, admin.UpdateFeaturesResponse),
    ApiKey.PRODUCE: (producer.ProduceRequest, producer.ProduceResponse),
    ApiKey.LIST_OFFSETS: (consumer.ListOffsetsRequest, consumer.ListOffsetsResponse),
    ApiKey.DELETE_RECORDS: (admin.DeleteRecordsRequest, admin.DeleteRecordsResponse),
    ApiKey.INIT_PRODUCER_ID: (producer.InitProducerIdRequest, producer.InitProducerIdResponse),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        consumer.OffsetForLeaderEpochRequest,
        consumer.OffsetForLeaderEpochResponse,
    ),
    ApiKey.FETCH: (consumer.FetchRequest, consumer.FetchResponse),
}
"""Request and response class of each API that kafka-python has."""
