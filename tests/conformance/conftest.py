import pytest

from tests.conformance.arms import LocalArm, SimArm


@pytest.fixture(
    params=[
        pytest.param(SimArm(), id="sim"),
        pytest.param(SimArm(wire=True), id="sim-wire"),
        pytest.param(LocalArm(), id="local", marks=pytest.mark.cluster),
    ]
)
def arm(request):
    """Where a body runs."""
    return request.param
