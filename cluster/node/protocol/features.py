"""Versioned features of a node and of its cluster, as ApiVersions reports them (KIP-584)."""

from __future__ import annotations

from typing import Final

from cluster.values import valueclass


@valueclass
class SupportedFeature:
    """The levels of a feature that this node can work with, both ends included."""

    name: str
    min_level: int
    max_level: int


@valueclass
class FinalizedFeature:
    """The level of a feature that is in force in the cluster."""

    name: str
    level: int


@valueclass
class Features:
    """What a node supports, and what it knows to be in force."""

    supported: tuple[SupportedFeature, ...] = ()
    finalized: tuple[FinalizedFeature, ...] = ()
    finalized_epoch: int = -1
    """The offset of the metadata that `finalized` was read from; -1 while there is none."""


NO_FEATURES: Final = Features()
