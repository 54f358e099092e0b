"""What each kind of fault step does: from its words to a call of `Effects`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.sim.effects import Effects, Link, Undo
from harness.sim.kinds import KINDS
from harness.sim.scenario import Step

Apply = Callable[[Effects, tuple[str, ...], list[Link], Mapping[str, Any]], Undo | None]
"""(effects, nodes that are hit, links, every option) -> how to undo it, None when it is over."""


def _bit_rot(
    effects: Effects, nodes: tuple[str, ...], links: list[Link], told: Mapping[str, Any]
) -> None:
    del links
    effects.bit_rot(nodes, told["file"], told["at"], told["down_ms"])


def _restart(
    effects: Effects, nodes: tuple[str, ...], links: list[Link], told: Mapping[str, Any]
) -> None:
    del links
    effects.restart(nodes, told["down_ms"], told["keep"], graceful=told["graceful"])


def _release(effects: Effects, links: Sequence[Link], *, deliver: bool) -> None:
    effects.let_go(links, deliver=deliver)


_APPLY: Mapping[str, Apply] = {
    "kill": lambda effects, nodes, _, told: effects.kill(nodes, told["keep"]),
    "restart": _restart,
    "pause": lambda effects, nodes, *_: effects.pause(nodes),
    "resume": lambda effects, nodes, *_: effects.resume(nodes),
    "start": lambda effects, nodes, *_: effects.start(nodes),
    "partition": lambda effects, nodes, links, _: effects.cut(nodes, links),
    "cut": lambda effects, nodes, links, _: effects.cut(nodes, links),
    "join": lambda effects, nodes, *_: effects.join(nodes),
    "hold": lambda effects, _, links, told: effects.hold(
        links or effects.all_links(), [name for name in told["types"].split(",") if name]
    ),
    "release": lambda effects, _, links, __: _release(effects, links, deliver=True),
    "drop_held": lambda effects, _, links, __: _release(effects, links, deliver=False),
    "lossy": lambda effects, _, __, told: effects.lossy(
        told["loss"], told["duplication"], told["delay_ms"]
    ),
    "disk_stall": lambda effects, nodes, *_: effects.disk_stall(nodes),
    "disk_slow": lambda effects, nodes, _, told: effects.disk_slow(nodes, told["sync_ms"]),
    "disk_error": lambda effects, nodes, *_: effects.disk_error(nodes),
    "clock_rate": lambda effects, nodes, _, told: effects.clock_rate(nodes, told["rate"]),
    "clock_jump": lambda effects, nodes, _, told: effects.clock_jump(nodes, told["jump_ms"]),
    "bit_rot": _bit_rot,
    "voters": lambda effects, nodes, _, told: effects.change_voters(nodes, told["change"]),
    "wipe": lambda effects, nodes, _, told: effects.wipe(nodes, told["down_ms"], told["repair_ms"]),
    "resign": lambda effects, nodes, *_: effects.resign(nodes),
    "snapshot": lambda effects, nodes, *_: effects.snapshot(nodes),
    "heal": lambda effects, *_: effects.heal(),
}


def apply(effects: Effects, step: Step, targets: tuple[str, ...], links: list[Link]) -> Undo | None:
    """Do what a fault step says, with the defaults of its kind for what it does not say."""
    defaults = {name: option.default for name, option in KINDS[step.kind].options.items()}
    return _APPLY[step.kind](effects, targets, links, {**defaults, **step.options})
