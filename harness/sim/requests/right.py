"""Right requests of each kind, and what they make of the metadata (`plain_metadata`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from cluster.node.assembly import Node
from cluster.node.controller.records import kinds
from cluster.node.protocol import messages
from harness.sim.requests.decided import TIMEOUT
from harness.sim.requests.plain_metadata import (
    ALL_BROKERS,
    BROKER,
    ELR,
    END,
    MIN_ISR,
    NEW,
    NOWHERE,
    Change,
    Maps,
    Pairs,
    Plain,
    rows_as,
)
from harness.sim.requests.right_brokers import changes_of_brokers
from harness.sim.requests.right_partitions import changes_of_partitions
from harness.sim.requests.right_topics import changes_of_topics
from harness.sim.requests.settings import setting_changes

m: Any = messages


def changes(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    """Yield requests of one kind."""
    of = (
        setting_changes,
        changes_of_topics,
        changes_of_brokers,
        changes_of_partitions,
        _of_nodes,
        _of_features,
    )
    weights = (2, 2, 4, 4, 1, 1)
    yield from random.choices(of, weights)[0](plain, node, random)


_USER: Final = kinds.UserScramCredentialRecord(
    name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
_TOKEN: Final = kinds.DelegationTokenRecord(
    owner="u",
    requester="v",
    renewers=("w", ""),
    issue_timestamp=1,
    max_timestamp=1 << 40,
    expiration_timestamp=-1,
    token_id="t",  # noqa: S106  (an id)
)
_ACCESS: Final = kinds.AccessControlEntryRecord(
    id=NOWHERE,
    resource_type=2,
    resource_name="r",
    pattern_type=3,
    principal="User:u",
    host="*",
    operation=2,
    permission_type=3,
)
_ENTITY: Final = (kinds.QuotaEntity(entity_type="user"),)
_QUOTA: Final = kinds.ClientQuotaRecord(entity=_ENTITY, key="rate", value=0.5)
_OF_USERS: Final = (
    ("scram_credentials", ("u", 1), _USER, _USER),
    ("delegation_tokens", "t", _TOKEN, _TOKEN),
    ("access_control", NOWHERE, _ACCESS, _ACCESS),
    ("client_quotas", (_ENTITY, "rate"), 0.5, _QUOTA),
)
"""Maps that no world has anything in, a key and a value, and the record that puts it there."""
_GONE: Final = (
    kinds.RemoveUserScramCredentialRecord(name="u", mechanism=1),
    kinds.RemoveDelegationTokenRecord(token_id="t"),  # noqa: S106  (an id)
    kinds.RemoveAccessControlEntryRecord(id=NOWHERE),
    replace(_QUOTA, remove=True),
)


def _of_nodes(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    has_users = bool(plain.maps["scram_credentials"])
    records = _GONE if has_users else [row[3] for row in _OF_USERS]

    def makes_users(after: Plain, *_: object) -> Pairs:
        for name, key, value, _record in _OF_USERS:
            after.maps[name] = {} if has_users else {key: value}
        return ()

    yield Change(f"have users, no more {has_users}", None, makes_users, decide=lambda *_: records)
    broker = random.choice(list(plain.brokers.values()))
    request = m.AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)

    def gives(after: Plain, answer: Any, _: Maps) -> Pairs:
        first = after.maps["producer_ids"].get("next", 0)
        after.maps["producer_ids"]["next"] = first + 1_000
        yield (answer.producer_id_start, answer.producer_id_len), (first, 1_000)

    yield Change("allocate producer ids", request, gives)
    if node.registration is None:
        return
    number = random.randrange(NEW, END)
    asked: Any = replace(node.registration._request, controller_id=m.i32(number))

    def registers(after: Plain, *_: object) -> Pairs:
        after.maps["controllers"][number] = kinds.RegisterControllerRecord(
            controller_id=number,
            incarnation_id=asked.incarnation_id,
            zk_migration_ready=False,
            end_points=rows_as(kinds.RecordEndpoint, asked.listeners),
            features=rows_as(kinds.RecordFeature, asked.features),
        )
        return ()

    yield Change("register a controller", asked, registers)


def _of_features(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    known = {node.raft.node_id, *plain.maps["controllers"]}
    cluster = node._cluster
    voters = {each.node_id for each in cluster.controllers} if cluster.registration else set()
    name, most = random.choice(
        ((ELR, 1), (ELR, 1), ("group.version", 1), ("transaction.version", 2))
    )
    level, to, kind = (
        plain.maps["features"].get(name, 0),
        random.randint(0, most),
        random.randint(1, 3),
    )
    is_right = voters <= known and (to == level or (to > level) == (kind == 1))
    update = m.FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=kind)
    request = m.UpdateFeaturesRequest(
        timeout=TIMEOUT, feature_updates=(update,), validate_only=False
    )

    def makes(after: Plain, *_: object) -> Pairs:
        after.maps["features"].pop(name, 0)
        after.maps["features"] |= {name: to} if to else {}
        configs = after.maps["configs"]
        if name == ELR and to:
            configs.setdefault((ALL_BROKERS, MIN_ISR), str(cluster.min_insync_replicas))
            for of, key in [*configs]:
                if of.type == BROKER and of.name and key == MIN_ISR:
                    del configs[of, key]
        elif name == ELR and level:
            after.clear_eligible(after.maps["topics"])
        return ()

    error = "none" if is_right else "invalid_update_version"
    yield Change(f"finalize {name} {to} by {kind}", request, makes, error)
