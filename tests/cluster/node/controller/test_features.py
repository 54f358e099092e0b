"""Features: what a cluster begins with, and what its levels may become."""

import dataclasses

import pytest

from cluster.node.controller.configs.definitions import MIN_INSYNC_REPLICAS
from cluster.node.controller.configs.sources import ALL_BROKERS
from cluster.node.controller.core.feature_control import SUPPORTED, bootstrap_metadata
from cluster.node.controller.metadata.feature_levels import RELEASES
from cluster.node.controller.metadata.image_writer import (
    FILE_NAME,
    bootstrap_content,
    read_bootstrap,
)
from cluster.node.controller.records import decode_record, record_version
from cluster.node.controller.records.kinds import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from cluster.node.errors import ErrorCode
from cluster.node.log.metadata.snapshot import CorruptSnapshotError
from cluster.node.protocol.messages import (
    ControllerRegistrationFeature,
    ControllerRegistrationRequest,
)
from tests.cluster.node.controller.brokers import ALL, ELR, Brokers, register, update
from tests.cluster.node.controller.fakes import CLUSTER, active

UPGRADE, SAFE, UNSAFE = 1, 2, 3
MIGHT_DELETE = (
    "Refusing to perform the requested downgrade because it might delete metadata information."
)
COORDINATORS = {"group.version": 1, "transaction.version": 2}


class Folder:
    def __init__(self, **files):
        self.files = files

    def exists(self, name):
        return name in self.files

    def read(self, name):
        return self.files[name]


def formatted(release):
    """A controller whose folder was formatted for a release, as the file says it."""
    content = bootstrap_content(bootstrap_metadata(RELEASES[release]), 7)
    return active(bootstrap=read_bootstrap(Folder(**{FILE_NAME: content})))


def controller(controller_id, without=None):
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=None,
        zk_migration_ready=False,
        listeners=(),
        features=tuple(
            ControllerRegistrationFeature(
                name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level
            )
            for f in SUPPORTED
            if f.name != without
        ),
    )


def levels(node):
    features = node.controller.image.state.features
    return {name: features.get(name) for name in features.keys()}  # noqa: SIM118


@pytest.mark.parametrize(
    ("release", "others"),
    [
        ("4.0", COORDINATORS),
        ("4.1", COORDINATORS),
        ("4.2", {**COORDINATORS, "share.version": 1, "streams.version": 1}),
        ("4.3", {**COORDINATORS, "share.version": 1, "streams.version": 1}),
    ],
)
def test_a_cluster_begins_with_the_features_of_its_release(release, others):
    found = levels(formatted(release))
    found.pop(ELR, None)
    assert found == {"metadata.version": RELEASES[release], **others}


def test_a_folder_that_nobody_formatted_begins_as_the_newest_release():
    assert read_bootstrap(Folder()) == ()
    assert levels(active()) == levels(formatted("4.3"))


def min_isr(node):
    return node.controller.image.state.resource_config(ALL_BROKERS, MIN_INSYNC_REPLICAS)


def test_with_elr_all_brokers_get_the_minimal_isr_of_the_controllers_file():
    assert min_isr(active()) == "1"
    assert min_isr(active(min_insync_replicas=2)) == "2"
    cluster = dataclasses.replace(CLUSTER, min_insync_replicas=2)
    node = active(cluster=cluster, bootstrap=bootstrap_metadata(RELEASES["4.0"]))
    assert min_isr(node) is None
    assert node.call(update("metadata.version", 26)).error_code is ErrorCode.none
    assert node.call(update(ELR, 1)).error_code is ErrorCode.none
    assert min_isr(node) == "2"


def test_a_configured_voter_that_has_not_registered_may_not_support_a_level():
    voters = CLUSTER.controllers[:2]
    cluster = dataclasses.replace(CLUSTER, registration=True, controllers=voters)
    node = active(cluster=cluster)
    answer = node.call(update("transaction.version", 1, SAFE))
    assert answer.error_code is ErrorCode.invalid_update_version
    assert "controller 2 has not registered, and may not support this" in answer.error_message
    assert node.call(controller(2)).error_code is ErrorCode.none
    assert node.call(update("transaction.version", 1, SAFE)).error_code is ErrorCode.none


def test_a_damaged_bootstrap_file_is_refused():
    content = bytearray(bootstrap_content(bootstrap_metadata(), 7))
    content[-90] ^= 1
    with pytest.raises(CorruptSnapshotError):
        read_bootstrap(Folder(**{FILE_NAME: bytes(content)}))


def test_a_cluster_is_upgraded_level_by_level_but_30_is_the_way_of_no_return():
    node = formatted("4.0")
    for level in (26, 27, 28, 29):
        assert node.call(update("metadata.version", level)).error_code is ErrorCode.none
    assert node.call(update("metadata.version", 25, SAFE)).error_code is ErrorCode.none
    assert levels(node)["metadata.version"] == 25
    assert node.call(update("metadata.version", 30)).error_code is ErrorCode.none
    for upgrade_type, reason in (
        (SAFE, MIGHT_DELETE),
        (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ):
        answer = node.call(update("metadata.version", 29, upgrade_type))
        assert answer.error_code is ErrorCode.invalid_update_version
        assert answer.error_message == (
            "The update failed for all features since the following feature had an error: "
            f"Unsupported metadata.version downgrade from 30 to 29. {reason}"
        )


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (update("group.version", 2), "Local controller only supports versions 0-1"),
        (update("metadata.version", 24, SAFE), "Local controller only supports versions 25-30"),
        (update("metadata.version", 31), "Local controller only supports versions 25-30"),
        (update("nonsense", 1), "Local controller does not support this feature."),
        (update("kraft.version", 1), "Local controller does not support this feature."),
        (update("share.version", -1), "A feature version cannot be less than 0."),
        (
            update("group.version", 0),
            "Can't downgrade the version of this feature without setting the upgrade type",
        ),
        (update("transaction.version", 2, 4), "The controller does not support the given upgrade"),
    ],
)
def test_what_kafka_refuses_is_refused_with_its_words(request_, reason):
    node = active()
    before = levels(node)
    answer = node.call(request_)
    assert answer.error_code is ErrorCode.invalid_update_version
    (key,) = request_.feature_updates
    assert answer.error_message.startswith(
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {key.max_version_level} for feature {key.feature}. {reason}"
    )
    assert levels(node) == before


def test_a_feature_of_coordinators_is_lowered_and_raised():
    node = active()
    assert node.call(update("transaction.version", 1, SAFE)).error_code is ErrorCode.none
    assert levels(node)["transaction.version"] == 1
    assert node.call(update("transaction.version", 0, UNSAFE)).error_code is ErrorCode.none
    assert "transaction.version" not in levels(node)
    answer = node.call(update("transaction.version", 2, SAFE))
    assert answer.error_message.endswith("Can't downgrade to a newer version.")
    assert node.call(update("transaction.version", 2)).error_code is ErrorCode.none
    assert levels(node)["transaction.version"] == 2


def test_every_broker_and_controller_must_support_a_level():
    cluster = Brokers()
    cluster.node = formatted("4.0")
    old = tuple(
        dataclasses.replace(f, max_supported_version=29) if f.name == "metadata.version" else f
        for f in ALL
    )
    cluster.join(1, features=old)
    reason = "Broker 1 only supports versions 1-29"
    assert reason in cluster.node.call(update("metadata.version", 30)).error_message
    assert cluster.node.call(update("metadata.version", 29)).error_code is ErrorCode.none
    assert cluster.node.call(controller(5, without="share.version")).error_code is ErrorCode.none
    answer = cluster.node.call(update("share.version", 1))
    assert "Controller 5 does not support" in answer.error_message


def last_version(node):
    return decode_record(node.raft.log[-1].records[-1])[1]


@pytest.mark.parametrize(("release", "version"), [("4.0", 3), ("4.2", 3), ("4.3", 4)])
def test_a_registration_is_written_in_the_version_of_the_level(release, version):
    node = formatted(release)
    assert node.call(register(1)).error_code is ErrorCode.none
    assert last_version(node) == version


@pytest.mark.parametrize(("release", "version"), [("4.0", 3), ("4.3", 4)])
def test_so_is_it_in_a_snapshot(release, version):
    node = formatted(release)
    node.call(register(1))
    node.controller.request_snapshot()
    while not node.raft.snapshots or not node.raft.snapshots[-1].frozen:
        node.clock.advance(1)
    read = [decode_record(value) for value in node.raft.snapshots[-1].values]
    assert [v for record, v in read if isinstance(record, RegisterBrokerRecord)] == [version]


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"fenced": -1}, 0),
        ({"in_controlled_shutdown": 1}, 1),
        ({"log_dirs": (register(1).incarnation_id,)}, 2),
        ({"cordoned_log_dirs": ()}, 3),
    ],
)
def test_a_change_of_a_registration_is_written_in_the_lowest_version_that_holds_it(
    changes, version
):
    record = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, **changes)
    assert record_version(record, 30) == version
