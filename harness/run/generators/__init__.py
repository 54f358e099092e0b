"""Generators of operations and their combinators; see `harness.run.generators.base`."""

from harness.run.generators.base import Answer, Context, Done, Generator, Next, Wait, Worker
from harness.run.generators.flow import EachWorker, Limit, Of, Phases, UntilOk
from harness.run.generators.routing import Clients, Nemesis, Together
from harness.run.generators.timing import At, BackOff, Rate, Spaced, TimeLimit, Until

__all__ = [
    "Answer",
    "At",
    "BackOff",
    "Clients",
    "Context",
    "Done",
    "EachWorker",
    "Generator",
    "Limit",
    "Nemesis",
    "Next",
    "Of",
    "Phases",
    "Rate",
    "Spaced",
    "TimeLimit",
    "Together",
    "Until",
    "UntilOk",
    "Wait",
    "Worker",
]
