"""The messages of a transactional client (KIP-98), which no node of this repository serves.

As in `cluster.node.protocol.messages` the classes are kio's. A request is sent in its class's
version at most: with the first protocol of transactions a client sends EndTxn 4 and adds
partitions itself; with transaction.version 2 (KIP-890) it sends EndTxn 5, whose answer has the
epoch of the next transaction. AddPartitionsToTxn is one of brokers from version 4 on. So it is with
TxnOffsetCommit: below version 5 AddOffsetsToTxn comes before.
"""

from __future__ import annotations

from typing import Final

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v4.request import EndTxnRequest as EndTxnRequestV4
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.txn_offset_commit.v4 import request as v4
from kio.schema.txn_offset_commit.v5 import request as v5
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse
from kio.schema.types import GroupId, ProducerId, TransactionalId

TXN_OFFSET_COMMIT: Final = {False: v4, True: v5}
"""Classes of the request that makes its group one of the transaction's (True), or does not."""
GROUP: Final = 0
TRANSACTION: Final = 1
"""Types of coordinators, of FindCoordinator."""
