"""Models by name: what a correct system does when it is asked one thing after another."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from porcupine_py.models.base import Model, NondeterministicModel, State, relevant
from porcupine_py.models.brokers import Broker
from porcupine_py.models.collections import GrowingSet, ListAppend, Log
from porcupine_py.models.counters import Counter, ProducerIds, UniqueIds
from porcupine_py.models.queues import Mutex, Queue, UnorderedQueue
from porcupine_py.models.registers import CasRegister, Register
from porcupine_py.models.strings import KeyValue
from porcupine_py.models.topics import Topics
from porcupine_py.names import nearest
from porcupine_py.values import freeze

__all__ = [
    "MODELS",
    "Broker",
    "CasRegister",
    "Counter",
    "GrowingSet",
    "KeyValue",
    "ListAppend",
    "Log",
    "Model",
    "Mutex",
    "NondeterministicModel",
    "ProducerIds",
    "Queue",
    "Register",
    "State",
    "Topics",
    "UniqueIds",
    "UnorderedQueue",
    "freeze",
    "model_named",
    "relevant",
]

MODELS: dict[str, Callable[..., Model]] = {
    model.name: model
    for model in (
        Register,
        CasRegister,
        KeyValue,
        ListAppend,
        GrowingSet,
        Counter,
        Queue,
        UnorderedQueue,
        Mutex,
        Log,
        Topics,
        ProducerIds,
        UniqueIds,
        Broker,
    )
}


def model_named(name: Any, initial: Any = None) -> Model:
    """Return a new model, which begins with `initial` where that is not None.

    Raises ValueError, naming the nearest, when there is none of the name, and where a model begins
    with nothing else than it does, or not with such a value.
    """
    factory = MODELS.get(name) if isinstance(name, str) else None
    if factory is None:
        raise ValueError(f"unknown model {name!r}; {nearest(name, MODELS)}")
    if initial is None:
        return factory()
    if "initial" not in signature(factory).parameters:
        raise ValueError(f"the model {name!r} takes no initial value")
    return factory(initial=initial)
