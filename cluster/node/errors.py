"""Kafka's protocol error codes, by their Kafka names (generated in kio from `Errors.java`)."""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode"]
