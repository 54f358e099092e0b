"""Kafka's spelling of field names in JSON."""

from __future__ import annotations

from typing import Any


def camel_case(value: Any) -> Any:
    """Rename the keys of all objects in a JSON value from snake_case to camelCase."""
    if isinstance(value, dict):
        return {_camel(key): camel_case(part) for key, part in value.items()}
    if isinstance(value, list):
        return [camel_case(part) for part in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
