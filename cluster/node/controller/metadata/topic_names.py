"""Which topic names are legal, and which of them cannot live together (Kafka's Topic class)."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that Kafka's coordinators keep their state in."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name_reason(name: str) -> str | None:
    """Return why a topic cannot have this name, or None when it can."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def similar_name(name: str) -> str:
    """Return the name as metrics would show it: '.' and '_' are one character there.

    Two topics with equal similar names collide; only one of them may exist.
    """
    return name.replace(".", "_")
