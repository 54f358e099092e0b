"""Mutated and arbitrary frames against a real node: it must live, answer, and not grow."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.node.protocol.apis import LISTENER_APIS, ListenerType, request_class
from tests.cluster.node.protocol.entities import entities
from tests.cluster.node.runtime.live_node import LiveNode
from tests.cluster.node.runtime.mutated_frames import mutations
from tests.kio_bytes import request_frame


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    live = LiveNode(tmp_path_factory.mktemp("fuzz"))
    yield live
    live.close()


APIS = [
    (listener, key, version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in range(versions.lowest, versions.highest + 1)
]


@st.composite
def frames(draw):
    listener, key, version = draw(st.sampled_from(APIS))
    entity = draw(entities(request_class(key, version)))
    body = draw(mutations(request_frame(entity, 1, draw(st.text(max_size=4)))))
    size = len(body)
    if draw(st.integers(0, 19)) == 0:
        size = draw(st.sampled_from([-1, 0, 1, size - 1, size + 1, 2**31 - 1]))
    return listener, struct.pack(">i", size) + body


@pytest.mark.slow
@pytest.mark.parametrize("frames_fed", [400, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_no_frame_breaks_stalls_or_silences_the_node(node, frames_fed):
    @settings(
        max_examples=frames_fed,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(frames())
    def check(case):
        node.feed(*case)

    check()
    assert node.server.buffered_bytes == 0
    assert node.answered > frames_fed / 10, "hardly any frame got past the codec"
