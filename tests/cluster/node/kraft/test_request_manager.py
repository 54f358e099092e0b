"""One request in flight to a node, back-off, time-outs."""

import random

from cluster.node.kraft.request_manager import RequestManager
from cluster.node.ports import Endpoint

PEERS = (Endpoint(2, "n", 9002), Endpoint(3, "n", 9003))


def manager():
    requests = RequestManager(20, 2000, random.Random(1))
    requests.bootstrap = PEERS
    return requests


def test_a_node_with_a_request_in_flight_is_not_ready():
    requests = manager()
    requests.on_request_sent(2, 0)
    assert not requests.is_ready(2, 1999)
    assert requests.is_ready(3, 0)
    assert requests.ready_at_ms(2) == 2000


def test_a_request_that_timed_out_makes_way():
    requests = manager()
    late = requests.on_request_sent(2, 0)
    assert requests.is_ready(2, 2000)
    assert not requests.is_response_expected(2, late)


def test_a_failure_backs_off():
    requests = manager()
    requests.on_request_sent(2, 0)
    requests.on_failure(2, 5)
    assert not requests.is_ready(2, 24)
    assert requests.is_ready(2, 25)


def test_a_success_is_ready_at_once():
    requests = manager()
    requests.on_request_sent(2, 0)
    requests.on_success(2)
    assert requests.is_ready(2, 5)


def test_only_the_response_to_the_request_in_flight_is_expected():
    requests = manager()
    first = requests.on_request_sent(2, 0)
    assert requests.is_response_expected(2, first)
    requests.on_success(2)
    assert not requests.is_response_expected(2, first), "repeated"
    second = requests.on_request_sent(2, 2)
    assert first != second
    assert not requests.is_response_expected(2, first), "late"
    assert not requests.is_response_expected(3, second), "of another node"


def test_a_change_of_role_forgets_what_is_in_flight():
    requests = manager()
    old = requests.on_request_sent(2, 0)
    requests.reset_all()
    assert requests.is_ready(2, 0)
    assert not requests.is_response_expected(2, old)


def test_no_bootstrap_server_is_asked_while_anything_is_in_flight():
    requests = manager()
    requests.on_request_sent(2, 0)
    assert requests.find_ready_bootstrap(1) is None
    assert requests.bootstrap_ready_at_ms() == 2000
    assert requests.find_ready_bootstrap(2000) is not None


def test_bootstrap_servers_that_back_off_are_left_alone():
    requests = manager()
    for peer, now_ms in ((2, 0), (3, 10)):
        requests.on_request_sent(peer, now_ms)
        requests.on_failure(peer, now_ms)
    assert requests.find_ready_bootstrap(15) is None
    assert requests.bootstrap_ready_at_ms() == 20
    assert requests.find_ready_bootstrap(20) == PEERS[0]


def test_both_bootstrap_servers_get_their_turn():
    requests = manager()
    assert {requests.find_ready_bootstrap(0) for _ in range(50)} == set(PEERS)


def test_a_request_that_timed_out_is_given_up_once_another_is_sent_to_any_node():
    requests = manager()
    late = requests.on_request_sent(2, 0)
    assert requests.is_response_expected(2, late)
    requests.on_request_sent(-2, 2000)
    assert not requests.is_response_expected(2, late)
