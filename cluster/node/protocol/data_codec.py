"""Produce and Fetch of data on the wire: which mapping belongs to which flat class and API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.data_fetch_codec import FETCH
from cluster.node.protocol.data_messages import FetchRequest, ProduceRequest
from cluster.node.protocol.data_produce_codec import PRODUCE
from cluster.node.protocol.data_schema import DataCodec

__all__ = ["DATA_CODECS", "DATA_REQUESTS", "DataCodec"]

DATA_CODECS: Final[Mapping[ApiKey, DataCodec]] = {codec.key: codec for codec in (PRODUCE, FETCH)}

DATA_REQUESTS: Final[Mapping[type[Any], DataCodec]] = {ProduceRequest: PRODUCE, FetchRequest: FETCH}
"""Which mapping is each flat request's."""
