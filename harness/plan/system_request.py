"""What a plan asks of its system, with the image that it names found on this machine."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from cluster.node.security.tls import PLAINTEXT
from cluster.systems.base import System
from cluster.systems.image import OPTION, Image
from cluster.systems.kinds import SettingError, SystemRequest
from cluster.systems.secured import RunSecurity
from harness.errors import WrongAnswerError
from harness.plan.plan import Plan
from results.store.model import system_shown


def request_of(plan: Plan, security: RunSecurity | None = None) -> SystemRequest:
    """Return the request. Raises BackendError where the plan's image is not on this machine."""
    name = plan.system_options.get(OPTION)
    image = None if name is None else _image(name)
    return SystemRequest(plan.node_settings, plan.system_options, plan.mutant, security, image)


def system_of(plan: Plan, run: str) -> System:
    """Make the system of a plan, with keys and passwords for the run if it is secured.

    Raises SettingError where it is not installed, or leaves its listeners unsecured all the same,
    and WrongAnswerError where a package makes none.
    """
    security = RunSecurity(plan.security, run) if plan.security.to_json() else None
    system = plan.kind.create(request_of(plan, security))
    if not isinstance(system, System):
        raise WrongAnswerError(plan.kind.create, system)
    if security is not None and system.client_security == PLAINTEXT:
        raise SettingError(f"security: system {plan.system} cannot secure its listeners")
    return system


def system_unlike_real(plan: Plan) -> str:
    """Name system, build and parts where not all parts of its nodes are its own; else empty."""
    made_of = plan.kind.made_of
    if not made_of:
        return ""
    return system_shown({"system": plan.system, "versions": versions_of(plan), "made_of": made_of})


def versions_of(plan: Plan) -> dict[str, str]:
    """Return the versions of what a plan starts. Raises WrongAnswerError, and as `system_of`."""
    found: object = plan.kind.versions(request_of(plan))
    if not isinstance(found, Mapping) or not all(isinstance(v, str) for v in found.values()):
        raise WrongAnswerError(plan.kind.versions, found)
    return dict(found)


@functools.cache
def _image(name: str) -> Image:
    """Find an image, the same one for as long as this process lives."""
    from cluster.backends.docker.user_image import find_image  # noqa: PLC0415

    return find_image(name)
