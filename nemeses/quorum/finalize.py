"""Levels of features are finalized (KIP-584, KIP-778), as once nodes have been upgraded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from nemeses.base import (
    Injection,
    ParameterError,
    Parameters,
    Refusal,
    View,
    add_measurement,
    application,
)
from nemeses.fault_kind import FaultKind
from nemeses.queries import until
from nemeses.quorum.membership import ask_leader, finalize

METADATA: Final = "metadata.version"
CHANGES: Final[Mapping[str, int]] = {"upgrade": 1, "safe-downgrade": 2, "unsafe-downgrade": 3}
"""Kafka's `upgrade_type`."""
LEVELS: Final = ("latest", "lower")
LEVEL_MAX: Final = 32_767
DONE_WITHIN_S = 60.0
"""How long a change may take: the nodes must have registered with what they support. A voter that
was killed just before has to start, for some 30 s on a starved machine; until it has said by
UpdateRaftVoter that it supports kraft.version 1 (KIP-853), the leader refuses that as invalid."""
SHOWN_WITHIN_S = 20.0
"""How long the leader may take to show the level that it has answered for."""
_CERTAIN: Final = frozenset(
    {
        *(ErrorCode.invalid_update_version, ErrorCode.feature_update_failed),
        *(ErrorCode.invalid_request, ErrorCode.unsupported_version),
    }
)
"""Errors with which a leader refuses a change that it has not made."""


class Finalize(FaultKind):
    """The leader is asked to finalize another level of a feature, for good.

    Parameters: feature (default metadata.version); level: "latest" (the default: all that the
    leader supports), "lower" (one less than is finalized) or a number; change: "upgrade" (default),
    "safe-downgrade" or "unsafe-downgrade"; refused (default false): whether it must be refused. It
    bit when the leader answered so, and then shows the level that follows.
    """

    name = "finalize"
    target = None
    choices: ClassVar = {"change": tuple(CHANGES), "refused": (False, True)}
    keys = ("feature", "level")
    favourites = ()
    variants = ({}, {"level": "lower", "refused": True})

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        super().check(parameters, nodes)
        level = parameters.get("level", "latest")
        is_number = type(level) is int and 0 <= level <= LEVEL_MAX
        if not is_number and level not in LEVELS:
            raise ParameterError(f"level of finalize must be latest, lower or a number: {level!r}")
        if not isinstance(parameters.get("feature", METADATA), str):
            raise ParameterError("feature of finalize must be a name, such as metadata.version")

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`. Asks again while there is no certain answer."""
        self.check(parameters, view.backend.nodes)
        feature = parameters.get("feature", METADATA)
        refused = parameters.get("refused", False)
        change = parameters.get("change", "upgrade")
        answers: list[str] = []
        detail: dict[str, Any] = {"feature": feature, "change": change, "answers": answers}

        async def attempt() -> bool | None:
            levels = await _ask_levels(view, feature)
            if levels is None:
                return None
            before, most = levels
            level: int = parameters.get("level", "latest")
            level = {"latest": most, "lower": before - 1}.get(str(level), level)
            detail.setdefault("before", before)
            detail["level"] = level
            error = await finalize(view, feature, level, CHANGES[change])
            answers.append(error.name if isinstance(error, ErrorCode) else str(error))
            return error is ErrorCode.none or (refused and error in _CERTAIN) or None

        await until(attempt, DONE_WITHIN_S)
        if not answers:
            raise Refusal("no leader says which levels it supports")
        return application(self.name, parameters, (), detail)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`: the answer is the wanted one, and the leader shows the level."""
        detail = injection.detail
        refused = injection.parameters.get("refused", False)
        wanted = detail["before"] if refused else detail["level"]

        async def shows() -> int | None:
            levels = await _ask_levels(view, detail["feature"])
            return levels[0] if levels is not None and levels[0] == wanted else None

        answer = detail["answers"][-1]
        answers = {error.name for error in _CERTAIN} if refused else {ErrorCode.none.name}
        wrong = []
        if answer not in answers:
            wrong.append(f"{detail['feature']} {detail['level']} was answered with {answer}")
        level = await until(shows, SHOWN_WITHIN_S)
        if level is None:
            wrong.append(f"the leader does not show {detail['feature']} {wanted}")
        return add_measurement(injection, {"after": level}, wrong)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: a level is for good."""
        del view
        return add_measurement(injection, {})


async def _ask_levels(view: View, feature: str) -> tuple[int, int] | None:
    """Ask for a feature's finalized level (0: none) and the leader's highest; None unless known."""
    request = ApiVersionsRequest(client_software_name="kraftprobe", client_software_version="1")
    answer = await ask_leader(view, request)
    if not isinstance(answer, ApiVersionsResponse):
        return None
    most = [key.max_version for key in answer.supported_features if key.name == feature]
    now = [key.max_version_level for key in answer.finalized_features if key.name == feature]
    return (max(now, default=0), most[0]) if most else None
