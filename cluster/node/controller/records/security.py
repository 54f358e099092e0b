"""Records of SCRAM credentials (KIP-900).

Source: Kafka's metadata/src/main/resources/common/metadata/*.json. RemoveUserScramCredentialRecord
was read there; UserScramCredentialRecord there in a draft that held a salted password and, with the
two keys that took its place, in a fork that follows trunk.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar

from cluster.node.controller.records.schema import MetadataRecord
from cluster.node.controller.records.wire import BYTES, INT8, INT32, STRING
from cluster.values import valueclass


@valueclass(kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    """What a server keeps of a user's password for one mechanism; it replaces what was there."""

    api_key: ClassVar[int] = 11

    name: Annotated[str, STRING]
    mechanism: Annotated[int, INT8]
    """1: SCRAM-SHA-256, 2: SCRAM-SHA-512."""
    salt: Annotated[bytes, BYTES] = field(repr=False)
    stored_key: Annotated[bytes, BYTES] = field(repr=False)
    server_key: Annotated[bytes, BYTES] = field(repr=False)
    iterations: Annotated[int, INT32]


@valueclass(kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """A user has no credential for this mechanism any more."""

    api_key: ClassVar[int] = 22

    name: Annotated[str, STRING]
    mechanism: Annotated[int, INT8]
