"""What an error says of itself."""

from cluster.node.errors import reason_of


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_error_with_a_message_is_reported_by_it():
    assert reason_of(raised(ValueError("too large"))) == "ValueError: too large"


def test_a_bare_assertion_is_reported_by_its_place():
    reason = reason_of(raised(AssertionError()))
    assert reason.startswith("AssertionError: in raised (test_reasons.py:")


def test_what_was_never_raised_has_no_place():
    assert reason_of(AssertionError()) == "AssertionError: "
