"""How a proxied stream is cut into messages, and which of them a hold keeps."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.links.messages import KINDS, Hold, Sieve, Stream
from cluster.node.kraft.messages import FetchRequest, RaftRequest, RaftResponse
from cluster.node.protocol.apis import ApiKey
from nemeses.links.hold import MESSAGE_TYPES

pytestmark = pytest.mark.slow

LINK = ("n1", "n2")


def request(key: int, correlation_id: int, body: bytes = b"body") -> bytes:
    return struct.pack(">ihhi", 8 + len(body), key, 0, correlation_id) + body


def response(correlation_id: int, body: bytes = b"answer") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


VOTE = request(ApiKey.VOTE, 1)
FETCH = request(ApiKey.FETCH, 2, b"a longer one" * 9)
EMPTY = request(ApiKey.VOTE, 3, b"")
VERSIONS = request(ApiKey.API_VERSIONS, 0)
FRAMES = (VERSIONS, VOTE, FETCH, EMPTY, FETCH)


class World:
    """One connection: its streams both ways, and what comes out behind the proxy."""

    def __init__(self) -> None:
        self.there, self.back = (Sieve(link, "CONTROLLER") for link in (LINK, LINK[::-1]))
        unanswered: dict[int, int] = {}
        self.requests = Stream(self.there, unanswered, requests=True)
        self.responses = Stream(self.back, unanswered, requests=False)
        self.out = b""
        self.requests.begin(self._write)

    def _write(self, data: bytes) -> None:
        self.out += data

    def say(self, data: bytes) -> None:
        self.out += bytes(self.requests.take(memoryview(data)))

    def answer(self, data: bytes) -> bytes:
        return bytes(self.responses.take(memoryview(data)))

    def hold(self, *types: str) -> Hold:
        hold = Hold({LINK}, frozenset(KINDS[name] for name in types))
        self.there.begin(hold)
        self.back.begin(hold)
        return hold

    def end(self, hold: Hold) -> None:
        self.there.holds.remove(hold)
        self.back.holds.remove(hold)


def kept(hold: Hold) -> list[bytes]:
    return [held.frame for held in hold.held]


def test_every_type_that_a_hold_may_name_is_known_here():
    assert set(MESSAGE_TYPES) <= set(KINDS)
    assert {message.__name__ for message in (RaftRequest | RaftResponse).__args__} <= set(KINDS)
    assert KINDS[FetchRequest.__name__] == (1, True)


def test_without_a_hold_bytes_pass_as_they_come():
    world = World()
    for byte in b"".join(FRAMES):
        world.say(bytes([byte]))
        assert world.out[-1] == byte
    data = memoryview(VOTE)
    assert world.requests.take(data) is data


@pytest.mark.parametrize("cut", range(len(b"".join(FRAMES)) + 1))
def test_messages_are_held_wherever_the_stream_is_cut(cut):
    world = World()
    hold = world.hold("VoteRequest")
    stream = b"".join(FRAMES)
    world.say(stream[:cut])
    world.say(stream[cut:])
    assert kept(hold) == [VOTE, EMPTY]
    assert world.out == VERSIONS + FETCH + FETCH


@pytest.mark.parametrize("cut", range(1, len(VOTE)))
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_message_whose_beginning_has_passed_passes_whole(cut, size):
    world = World()
    world.say(VERSIONS + VOTE[:cut])
    hold = world.hold("VoteRequest")
    rest = VOTE[cut:] + VOTE + FETCH
    for start in range(0, len(rest), size):
        world.say(rest[start : start + size])
    assert world.out == VERSIONS + VOTE + FETCH
    assert kept(hold) == [VOTE]


@pytest.mark.parametrize("cut", range(len(VOTE) + 1))
def test_a_message_that_is_whole_only_after_the_hold_passes(cut):
    world = World()
    hold = world.hold("VoteRequest")
    world.say(EMPTY + VOTE[:cut])
    world.end(hold)
    world.say(VOTE[cut:] + VOTE)
    assert kept(hold) == ([EMPTY, VOTE] if cut == len(VOTE) else [EMPTY])
    assert world.out == (VOTE if cut == len(VOTE) else VOTE + VOTE)


def test_a_released_message_goes_between_two_others():
    world = World()
    hold = world.hold("VoteRequest")
    world.say(VOTE + FETCH + FETCH[:20])
    hold.held[0].stream.insert(hold.held[0].frame)
    world.end(hold)
    world.say(FETCH[20:])
    assert world.out == FETCH + VOTE + FETCH


def test_a_response_is_named_by_its_request_even_if_that_was_sent_before_the_hold():
    world = World()
    world.say(VERSIONS + VOTE + FETCH)
    assert world.answer(response(0)) == response(0)
    hold = world.hold("FetchResponse")
    world.say(request(ApiKey.FETCH, 4))
    assert world.answer(response(1) + response(2) + response(4)) == response(1)
    assert kept(hold) == [response(2), response(4)]


def test_a_held_request_is_answered_under_its_name_when_it_was_released():
    world = World()
    hold = world.hold("VoteRequest", "VoteResponse")
    world.say(VOTE)
    hold.held.clear()
    assert world.answer(response(1)) == b""
    assert kept(hold) == [response(1)]


def test_a_hold_without_types_keeps_all_but_what_sets_a_connection_up():
    world = World()
    hold = world.hold()
    world.say(b"".join(FRAMES))
    assert world.out == VERSIONS
    assert world.answer(response(0) + response(2)) == response(0)
    assert kept(hold) == [*FRAMES[1:], response(2)]


def test_the_first_of_two_holds_keeps():
    world = World()
    first, second = world.hold("VoteRequest"), world.hold()
    world.say(VOTE + FETCH)
    assert (kept(first), kept(second)) == ([VOTE], [FETCH])


NOT_KAFKA = (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -1) + b"????????", b"\0\0\0\1" + b"x" * 8)


@pytest.mark.parametrize("garbage", NOT_KAFKA)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_what_is_not_kafkas_protocol_passes_unread_and_fails_the_hold(garbage, size):
    world = World()
    hold = world.hold()
    stream = VOTE + garbage + VOTE
    for start in range(0, len(stream), size):
        world.say(stream[start : start + size])
    assert world.out == garbage + VOTE
    assert kept(hold) == [VOTE]
    assert hold.undecoded == {LINK}
    assert not world.requests.takes_frames


@pytest.mark.parametrize("garbage", NOT_KAFKA)
def test_a_hold_fails_on_a_link_that_was_not_kafkas_before_until_its_connection_is_gone(garbage):
    world = World()
    world.say(VOTE)
    world.say(garbage)
    assert world.out == VOTE + garbage
    assert world.hold().undecoded == {LINK}
    world.requests.end()
    assert world.hold().undecoded == set()


@given(
    st.lists(st.sampled_from(FRAMES), max_size=8),
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_nothing_is_lost_doubled_or_reordered(frames, sizes, begin, length):
    """Frames that are whole while the hold stands, begun in it, are held; all else passes."""
    world = World()
    hold = None
    stream = b"".join(frames)
    chunks, position = [], 0
    while position < len(stream):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append((position, stream[position : position + size]))
        position += size
    spans: list[int] = [0, 0]
    for number, (start, chunk) in enumerate(chunks):
        if number == begin:
            hold, spans[0] = world.hold("VoteRequest"), start
        if hold is not None and number == begin + length:
            world.end(hold)
            spans[1] = start
        world.say(chunk)
    held_until = spans[1] if hold is not None and hold not in world.there.holds else len(stream)
    expected_out, expected_held, at = b"", [], 0
    for frame in frames:
        end = at + len(frame)
        if hold is not None and frame in (VOTE, EMPTY) and at >= spans[0] and end <= held_until:
            expected_held.append(frame)
        else:
            expected_out += frame
        at = end
    assert world.out == expected_out
    assert ([] if hold is None else kept(hold)) == expected_held
