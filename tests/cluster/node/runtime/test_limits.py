"""Who makes room on a full listener, and for which address."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.runtime.limits import Quota, ServerLimits

_clock = itertools.count()


@dataclass(eq=False)
class Connection:
    quota: Quota
    address: str
    is_busy: bool = False
    is_of_peer: bool = False
    is_authenticated: bool = True
    last_active: float = field(default_factory=lambda: float(next(_clock)))
    is_open: bool = False

    def open(self):
        self.is_open = self.quota.take(self)
        return self

    def evict(self):
        assert self.is_open
        self.is_open = False
        self.quota.give_back(self)


def full(places, *addresses, **fields):
    quota = Quota(ServerLimits(max_connections=places))
    return quota, [Connection(quota, address, **fields).open() for address in addresses]


def gone(connections):
    return [connection for connection in connections if not connection.is_open]


def test_the_address_that_holds_most_makes_room():
    quota, held = full(4, "voter", "crowd", "crowd", "crowd")
    assert Connection(quota, "client").open().is_open
    assert gone(held) == [held[1]]


def test_an_address_pushes_out_no_other_that_has_fewer_places():
    quota, held = full(3, "voter", "client", "crowd")
    for _ in range(10):
        assert Connection(quota, "crowd").open().is_open
    assert gone(held) == [held[2]]
    assert quota.evicted == 10


def test_a_crowd_that_keeps_all_places_busy_makes_room_for_another_address():
    quota, held = full(4, "voter", "crowd", "crowd", "crowd", is_busy=True)
    assert not Connection(quota, "crowd").open().is_open
    assert Connection(quota, "client").open().is_open
    assert gone(held) == [held[1]]
    assert (quota.refused, quota.evicted) == (1, 1)


def test_nothing_idle_and_no_crowd_is_a_refusal():
    quota, held = full(2, "a", "b", is_busy=True)
    assert not Connection(quota, "c").open().is_open
    assert gone(held) == []


def test_a_connection_that_is_not_authenticated_goes_before_any_other():
    quota, held = full(2, "a", "a", is_of_peer=True)
    held[1].is_authenticated = False
    Connection(quota, "a").open()
    assert gone(held) == [held[1]]


def test_an_address_has_no_more_places_than_its_limit_however_idle_they_are():
    quota = Quota(ServerLimits(max_connections=9, max_connections_per_ip=1))
    first = Connection(quota, "a").open()
    assert not Connection(quota, "a").open().is_open
    assert first.is_open


arrivals = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans(), st.booleans()), max_size=40
)


@pytest.mark.slow
@given(st.integers(1, 6), arrivals)
def test_no_address_takes_a_place_of_one_that_holds_as_few(places, arriving):
    quota, open_ = Quota(ServerLimits(max_connections=places)), []
    for address, is_busy, is_of_peer, is_authenticated in arriving:
        before = {a: sum(c.address == a for c in open_) for a in "abc"}
        new = Connection(quota, address, is_busy, is_of_peer, is_authenticated).open()
        lost = gone(open_)
        assert len(lost) <= 1
        for connection in lost:
            assert new.is_open
            fewer = before[address] < before[connection.address]
            assert connection.address == address or fewer
            assert not connection.is_busy or 2 * before[connection.address] > places
        open_ = [c for c in [*open_, new] if c.is_open]
        assert len(open_) <= places
    for connection in open_:
        connection.evict()
    assert quota._by_address == {}
