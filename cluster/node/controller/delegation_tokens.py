"""Delegation tokens that have expired go (DelegationTokenControlManager; KIP-48, KIP-900).

Tokens are issued and renewed by other controllers only: no node here serves those requests. But
whoever leads sweeps: brokers accept a token for as long as the metadata hold it. Kafka 4.3 sweeps
from the start on, tokens or none.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.node.controller.records.security import RemoveDelegationTokenRecord
from cluster.node.controller.state import MetadataState


def has_tokens(state: MetadataState) -> bool:
    """Return whether there is anything that may expire."""
    return next(iter(state.delegation_tokens.keys()), None) is not None


def expired_tokens(state: MetadataState, now_ms: int) -> Iterator[RemoveDelegationTokenRecord]:
    """Yield a removal for each token whose time, or longest life, was over before `now_ms`."""
    for token_id in list(state.delegation_tokens.keys()):
        token = state.delegation_tokens.get(token_id)
        assert token is not None
        if min(token.max_timestamp, token.expiration_timestamp) < now_ms:
            yield RemoveDelegationTokenRecord(token_id=token_id)
