"""UpdateFeatures before version 2: a flag for downgrades, a result for each feature."""

import io
import struct

import pytest
from kio.schema.update_features.v0.request import FeatureUpdateKey as KeyV0
from kio.schema.update_features.v0.request import UpdateFeaturesRequest as RequestV0
from kio.serial import entity_reader, entity_writer

from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import SERVED, ApiKey, response_class
from cluster.node.protocol.codec import read_request, write_request, write_response

KEY = ApiKey.UPDATE_FEATURES
UPGRADE, SAFE_DOWNGRADE = 1, 2


def framed(version):
    keys = tuple(
        m.FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=UPGRADE) for name in "ab"
    )
    request = m.UpdateFeaturesRequest(
        timeout=m.milliseconds(1), feature_updates=keys, validate_only=False
    )
    return write_request(request, version, 9, "test")[4:]


def answered(version, error, message=None):
    """The body that a response of a handler becomes, as kio reads it."""
    request = read_request(framed(version), SERVED)
    response = m.UpdateFeaturesResponse(
        throttle_time=m.NO_THROTTLE, error_code=error, error_message=message
    )
    entity = response_class(KEY, version)
    frame = write_response(request, response)[4:]
    _, start = entity_reader(entity.__header_schema__)(frame, 0)
    return entity_reader(entity)(frame, start)[0]


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_get_a_result_for_each_feature(version):
    body = answered(version, ErrorCode.none)
    assert [(r.feature, r.error_code) for r in body.results] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_is_that_of_all_features(version):
    body = answered(version, ErrorCode.invalid_update_version, "no")
    assert (body.error_code, body.error_message) == (ErrorCode.invalid_update_version, "no")
    assert body.results == ()


def test_the_newest_version_has_no_results():
    assert answered(2, ErrorCode.none).error_code is ErrorCode.none


@pytest.mark.parametrize(("allowed", "upgrade_type"), [(False, UPGRADE), (True, SAFE_DOWNGRADE)])
def test_the_flag_of_version_0_is_a_safe_downgrade(allowed, upgrade_type):
    old = RequestV0(
        timeout=m.milliseconds(1),
        feature_updates=(KeyV0(feature="a", max_version_level=1, allow_downgrade=allowed),),
    )
    body = io.BytesIO()
    entity_writer(RequestV0)(body, old)
    frame = struct.pack(">hhih", KEY, 0, 9, 0) + b"\0" + body.getvalue()
    (update,) = read_request(frame, SERVED).message.feature_updates
    assert (update.feature, update.upgrade_type) == ("a", upgrade_type)
