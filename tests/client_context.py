"""The context of a client of which a test fills in what counts."""

from dataclasses import fields
from typing import Any

from workloads.base import ClientContext


def client_context(**given: Any) -> ClientContext:
    """Return a context; what is not given is None."""
    names = (field.name for field in fields(ClientContext))
    return ClientContext(**{**dict.fromkeys(names), **given})  # type: ignore[arg-type]
