"""What a plan asks of its system, with the image that it names found on this machine."""

from __future__ import annotations

import functools

from cluster.systems.image import OPTION, Image
from cluster.systems.kinds import SystemRequest
from cluster.systems.secured import RunSecurity
from harness.plan.plan import Plan


def request_of(plan: Plan, security: RunSecurity | None = None) -> SystemRequest:
    """Return the request. Raises BackendError where the plan's image is not on this machine."""
    name = plan.system_options.get(OPTION)
    image = None if name is None else _image(name)
    return SystemRequest(plan.node_settings, plan.system_options, plan.mutant, security, image)


@functools.cache
def _image(name: str) -> Image:
    """Find an image, the same one for as long as this process lives."""
    from cluster.backends.docker.user_image import find_image  # noqa: PLC0415

    return find_image(name)
