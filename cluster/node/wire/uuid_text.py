"""Uuids as Kafka writes them (Uuid.toString)."""

from __future__ import annotations

import base64
import binascii
import uuid


def uuid_to_text(value: uuid.UUID) -> str:
    """Return 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> uuid.UUID:
    """Parse them. Raises ValueError."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"not a Kafka uuid: {text!r}") from error
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"not a Kafka uuid: {text!r}")
    return uuid.UUID(bytes=raw)


_RESERVED_IDS = 100


def is_reserved(directory_id: uuid.UUID) -> bool:
    """Whether an id is none that a log directory has (DirectoryId.reserved)."""
    return directory_id.int < _RESERVED_IDS
