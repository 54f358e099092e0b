"""SCRAM users in the metadata: made when a folder is formatted, known to every listener (KIP-554).

What is kept of a password are the two keys that follow from it (RFC 5802), which, once stolen, do
not serve to log in.
"""

from __future__ import annotations

import re
from typing import Final

from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.records.kinds import UserScramCredentialRecord

_TYPES: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""ScramMechanism's types."""
_USER: Final = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]", re.DOTALL)
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384


def credential_of(
    state: MetadataState, mechanism: str, user: str
) -> tuple[bytes, bytes, bytes, int] | None:
    """Return salt, stored key, server key and iterations of a user, None when there are none."""
    credential = state.scram_credentials.get((user, _TYPES[mechanism]))
    if credential is None:
        return None
    return credential.salt, credential.stored_key, credential.server_key, credential.iterations


def user_record(text: str) -> UserScramCredentialRecord:
    """Read `SCRAM-SHA-256=[name=N,password=P]` (ScramParser). ValueError never has the password."""
    found = _USER.fullmatch(text)
    fields = dict(item.partition("=")[::2] for item in found[2].split(",")) if found else {}
    name, password = fields.pop("name", ""), fields.pop("password", "")
    iterations = fields.pop("iterations", str(MIN_ITERATIONS))
    if found is None or fields or not (name and password and iterations.isdecimal()):
        expected = "SCRAM-SHA-256=[name=NAME,password=PASSWORD], or SCRAM-SHA-512, iterations=N too"
        raise ValueError(f"expected {expected}")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    from scramp import ScramException, ScramMechanism  # noqa: PLC0415  (most nodes have no SCRAM)

    try:
        made = ScramMechanism(found[1]).make_auth_info(password, iteration_count=int(iterations))
    except ScramException as error:
        raise ValueError(f"the password of {name!r} has no form in SCRAM") from error
    salt, stored_key, server_key, count = made
    return UserScramCredentialRecord(
        name=name,
        mechanism=_TYPES[found[1]],
        salt=bytes(salt),
        stored_key=bytes(stored_key),
        server_key=bytes(server_key),
        iterations=int(count),
    )
