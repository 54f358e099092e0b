"""Bytes that a released Kafka wrote, and bytes written out by hand from the schemas."""

import uuid

import pytest

from cluster.node.controller.records import decode_record, encode_record, record_to_json
from cluster.node.controller.records.broker import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RecordEndpoint,
    RecordFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from cluster.node.controller.records.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
)
from cluster.node.controller.records.system import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from cluster.node.controller.records.topic import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

BAR = uuid.UUID("00000000-0000-4000-8000-000000000028")
DIRECTORY = uuid.UUID("10000000-0000-4000-8000-000000000001")
ONE = uuid.UUID(int=1)
ID_1 = "00000000000000000000000000000001"

WRITTEN_BY_KAFKA = [
    # from a __cluster_metadata log with metadata.version 20 (3.8)
    (
        FeatureLevelRecord(name="metadata.version", feature_level=20),
        0,
        "010c00116d657461646174612e76657273696f6e001400",
    ),
    (
        TopicRecord(name="bar", topic_id=BAR),
        0,
        "01020004626172 00000000000040008000000000000028 00",
    ),
    (
        PartitionRecord(
            partition_id=0,
            topic_id=BAR,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(DIRECTORY,),
        ),
        1,
        (
            "010301 00000000 00000000000040008000000000000028 0200000001 0200000001 01 01"
            "00000001 00000000 00000000 02 10000000000040008000000000000001 00"
        ),
    ),
]
# from MetadataRecordSerde of Kafka 4.3.1's jar files
WRITTEN_BY_KAFKA += [
    (
        DelegationTokenRecord(
            owner="User:o",
            requester="User:r",
            renewers=("User:a", "User:b"),
            issue_timestamp=1,
            max_timestamp=3,
            expiration_timestamp=2,
            token_id="t",
        ),
        0,
        (
            "010a00 07557365723a6f 07557365723a72 03 07557365723a61 07557365723a62"
            "0000000000000001 0000000000000003 0000000000000002 0274 00"
        ),
    ),
    (RemoveDelegationTokenRecord(token_id="t"), 0, "011a00 0274 00"),
    (
        AccessControlEntryRecord(
            id=ONE,
            resource_type=2,
            resource_name="a",
            pattern_type=3,
            principal="User:p",
            host="*",
            operation=4,
            permission_type=3,
        ),
        0,
        f"011200 {ID_1} 02 0261 03 07557365723a70 022a 04 03 00",
    ),
    (RemoveAccessControlEntryRecord(id=ONE), 0, f"011300 {ID_1} 00"),
    (
        ClientQuotaRecord(
            entity=(
                QuotaEntity(entity_type="user", entity_name="u"),
                QuotaEntity(entity_type="client-id"),
            ),
            key="producer_byte_rate",
            value=1.5,
        ),
        0,
        (
            "010e00 03 0575736572 0275 00 0a636c69656e742d6964 00 00"
            "1370726f64756365725f627974655f72617465 3ff8000000000000 00 00"
        ),
    ),
    (ZkMigrationStateRecord(zk_migration_state=3), 0, "011500 03 00"),
]

BY_HAND = [
    (
        RegisterBrokerRecord(
            broker_id=3,
            incarnation_id=ONE,
            broker_epoch=7,
            end_points=(RecordEndpoint(name="C", host="h", port=40000),),
            features=(RecordFeature(name="f", min_supported_version=1, max_supported_version=30),),
            rack="r",
            log_dirs=(ONE,),
        ),
        4,
        (
            f"010004 00000003 00 {ID_1} 0000000000000007"
            "02 0243 0268 9c40 0000 00"
            "02 0266 0001 001e 00"
            f"0272 01 00 01 00 11 02 {ID_1}"
        ),
    ),
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=2), 0, "010100 00000001 0000000000000002 00"),
    (
        ConfigRecord(resource_type=4, resource_name="", name="k", value=None),
        0,
        "010400 04 01 026b 00 00",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="t", name="k", value="v"),
        0,
        "010400 02 0274 026b 0276 00",
    ),
    (
        PartitionChangeRecord(
            partition_id=5, topic_id=ONE, isr=(1,), leader=-1, directories=(), last_known_elr=(2,)
        ),
        2,
        f"010502 00000005 {ID_1} 04 00 05 0200000001 01 04 ffffffff 07 05 0200000002 08 01 01",
    ),
    (FenceBrokerRecord(id=1, epoch=2), 0, "010700 00000001 0000000000000002 00"),
    (UnfenceBrokerRecord(id=1, epoch=2), 0, "010800 00000001 0000000000000002 00"),
    (RemoveTopicRecord(topic_id=ONE), 0, f"010900 {ID_1} 00"),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000),
        0,
        "010f00 00000001 0000000000000002 00000000000003e8 00",
    ),
    (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1),
        3,
        "011103 00000001 0000000000000002 01 00 01 ff",
    ),
    (NoOpRecord(), 0, "011400 00"),
    (BeginTransactionRecord(name="x"), 0, "011700 01 00 02 0278"),
    (EndTransactionRecord(), 0, "011800 00"),
    (AbortTransactionRecord(), 0, "011900 00"),
    (
        RegisterControllerRecord(
            controller_id=1,
            incarnation_id=ONE,
            end_points=(RecordEndpoint(name="C", host="h", port=1),),
            features=(),
        ),
        0,
        f"011b00 00000001 {ID_1} 00 02 0243 0268 0001 0000 00 01 00",
    ),
    (ClearElrRecord(topic_name="t"), 0, "011c00 0274 00"),
    (UnregisterControllerRecord(controller_id=5), 0, "011d00 00000005 00"),
]


@pytest.mark.parametrize(("record", "version", "text"), WRITTEN_BY_KAFKA + BY_HAND)
def test_a_record_is_written_in_kafkas_bytes(record, version, text):
    assert encode_record(record, version).hex() == text.replace(" ", "")


@pytest.mark.parametrize(("record", "version", "text"), WRITTEN_BY_KAFKA + BY_HAND)
def test_a_record_is_read_from_kafkas_bytes(record, version, text):
    assert decode_record(bytes.fromhex(text)) == (record, version)


def test_json_has_kafkas_field_names():
    record = PartitionChangeRecord(partition_id=5, topic_id=ONE, isr=(1, 2))
    value = record_to_json(record)
    assert value["partitionId"] == 5
    assert value["topicId"] == "00000000-0000-0000-0000-000000000001"
    assert value["isr"] == [1, 2]
    assert value["lastKnownElr"] is None
