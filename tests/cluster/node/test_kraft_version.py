"""UpdateFeatures of kraft.version, alone and together with features of the metadata."""

import pytest

from cluster.node.controller.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS
from cluster.node.errors import ErrorCode
from cluster.node.kraft_version import is_kraft_version_update, update_kraft_version
from cluster.node.protocol.messages import FeatureUpdateKey, UpdateFeaturesRequest, milliseconds
from tests.cluster.node.controller.brokers import Brokers

ELR = ELIGIBLE_LEADER_REPLICAS


class Raft:
    """Finalizes what it is asked for, or refuses."""

    def __init__(self, error=ErrorCode.none):
        self.error, self.level, self.asked = error, 0, []

    def upgrade_kraft_version(self, level, done, *, validate_only):
        self.asked.append((level, validate_only))
        if self.error is ErrorCode.none and not validate_only:
            self.level = level
        done(self.error, None if self.error is ErrorCode.none else "raft refused")


def updating(*features, validate_only=False):
    return UpdateFeaturesRequest(
        timeout=milliseconds(1000),
        feature_updates=tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
            for name, level in features
        ),
        validate_only=validate_only,
    )


def answer(node, raft, request):
    answers = []
    update_kraft_version(
        raft, lambda others, then: then(node.call(others)), request, answers.append
    )
    (only,) = answers
    return only


def level_of(node, name=ELR):
    return node.controller.image.state.features.get(name) or 0


def test_a_request_that_updates_kraft_version_is_known_by_it():
    assert is_kraft_version_update(updating((ELR, 1), ("kraft.version", 1)))
    assert not is_kraft_version_update(updating((ELR, 1)))
    assert not is_kraft_version_update(object())


@pytest.mark.parametrize("order", [1, -1])
def test_all_features_of_a_request_are_updated(order):
    node, raft = Brokers().node, Raft()
    features = [("kraft.version", 1), (ELR, 1)][::order]
    assert answer(node, raft, updating(*features)).error_code is ErrorCode.none
    assert (raft.level, level_of(node)) == (1, 1)


def test_a_single_voter_asks_no_other_node():
    raft = Raft()
    assert answer(None, raft, updating(("kraft.version", 1))).error_code is ErrorCode.none
    assert raft.level == 1


@pytest.mark.parametrize(
    ("features", "refusal", "error"),
    [
        ([("kraft.version", 1), (ELR, 9)], ErrorCode.none, ErrorCode.invalid_update_version),
        ([("kraft.version", 1), ("no.such", 1)], ErrorCode.none, ErrorCode.invalid_update_version),
        ([("kraft.version", 1), (ELR, 1), (ELR, 1)], ErrorCode.none, ErrorCode.invalid_request),
        ([("kraft.version", 1), ("kraft.version", 1)], ErrorCode.none, ErrorCode.invalid_request),
        (
            [("kraft.version", 7), (ELR, 1)],
            ErrorCode.invalid_update_version,
            ErrorCode.invalid_update_version,
        ),
    ],
)
def test_nothing_happens_when_any_feature_is_refused(features, refusal, error):
    node, raft = Brokers().node, Raft(refusal)
    assert answer(node, raft, updating(*features)).error_code is error
    assert (raft.level, level_of(node)) == (0, 0)


def test_validation_alone_changes_nothing():
    node, raft = Brokers().node, Raft()
    request = updating(("kraft.version", 1), (ELR, 1), validate_only=True)
    assert answer(node, raft, request).error_code is ErrorCode.none
    assert raft.asked == [(1, True)]
    assert (raft.level, level_of(node)) == (0, 0)


def test_half_of_it_is_no_refusal():
    """The controller lost leadership between the two: kraft.version is up, and that is reported."""
    node, raft = Brokers().node, Raft()

    def others(request, then):
        if not request.validate_only:
            node.raft.lose()
        then(node.call(request))

    answers = []
    update_kraft_version(raft, others, updating(("kraft.version", 1), (ELR, 1)), answers.append)
    assert [answer.error_code for answer in answers] == [ErrorCode.unknown_server_error]
    assert "kraft.version is 1 now" in answers[0].error_message
    assert "not_controller" in answers[0].error_message
