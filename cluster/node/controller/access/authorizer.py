"""StandardAuthorizer: whether a principal may do something, by the entries in the metadata.

The rule (StandardAuthorizerData; KIP-11, KIP-290):

- A super user may do everything.
- An entry is *about* a resource when its pattern means it: the same name, the wildcard `*`, or a
  prefix of the name. It *applies* when principal (or `User:*`), host (or `*`) and operation agree.
- One DENY that applies refuses, whatever allows; else one ALLOW that applies allows.
- Where no entry is about the resource, `allow.everyone.if.no.acl.found` decides; where some are,
  and none applies, it is refused.
- ALL stands for every operation. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE as well,
  of ALTER_CONFIGS DESCRIBE_CONFIGS; a DENY implies nothing.

Kafka walks a tree that is sorted by reversed names. Here entries are found by hash: a literal name
and the wildcard are one look-up each, prefixes one for each *length* that any prefix of the type
has. So a decision costs what the entries about one resource cost, however many there are of others.
And it finds them all: for a name that begins with `*`, which a group's may, Kafka's walk takes the
wildcard for a name that is shorter, and passes its entries by, a DENY for everybody among them.

It is a publisher of the committed metadata, so that it decides by what no failure takes back, and
before their first publication knows nothing: then it decides about super users only, and others are
refused for now (AuthorizerNotReadyException). The nodes of a quorum must be super users for that
reason: none would get a vote before there is a leader, and without a leader nothing is published.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from cluster.node.controller.access.codes import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.delta import MetadataDelta
from cluster.node.controller.image import MetadataImage
from cluster.node.controller.loader import LoaderManifest
from cluster.node.controller.records.security import AccessControlEntryRecord
from cluster.node.controller.result import RequestError
from cluster.node.errors import ErrorCode
from cluster.node.kraft.types import LeaderAndEpoch
from cluster.node.ports import Trace
from cluster.node.protocol.origin import Origin
from cluster.values import valueclass

Principal = tuple[str, str]
"""Type and name."""
_ANYBODY: Final[Principal] = ("User", "*")
_IMPLY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    ),
}
"""What an ALLOW must be of to allow the operation; of all others the same."""
_NOT_READY: Final = "the access control entries are not loaded yet"


class AuthorizerNotReadyError(RequestError):
    """Whether the principal may do it is not known yet. UNKNOWN_SERVER_ERROR, as in Kafka."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.unknown_server_error, _NOT_READY)


def parse_principal(text: str) -> Principal | None:
    """Split `type:name` at its first colon; None without one (KafkaPrincipal)."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon else None


@valueclass
class _Entry:
    """What an entry says of the resources that its pattern means."""

    principal: Principal | None
    """None: nobody's, it has no colon."""
    host: str
    operation: AclOperation
    allows: bool

    def applies(self, principal: Principal, host: str, operation: AclOperation) -> bool:
        if self.principal not in {principal, _ANYBODY}:
            return False
        if self.host not in {WILDCARD, host}:
            return False
        if self.operation in {AclOperation.ALL, operation}:
            return True
        return self.allows and self.operation in _IMPLY.get(operation, ())


_Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""


class StandardAuthorizer:
    """Decides by super users and entries. A MetadataPublisher."""

    def __init__(
        self, super_users: frozenset[str], trace: Trace, *, allow_everyone_if_no_acl_found: bool
    ) -> None:
        """`super_users`: principals as `type:name`."""
        self._super_users = super_users
        self._trace = trace
        self._allow_by_default = allow_everyone_if_no_acl_found
        self._entries: dict[_Pattern, dict[uuid.UUID, _Entry]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        """By resource type: how many prefixed patterns have a name of this length."""
        self._is_loaded = False

    # MetadataPublisher.

    def on_metadata_update(
        self, delta: MetadataDelta, _image: MetadataImage, _manifest: LoaderManifest
    ) -> None:
        """Take up the entries that came and went."""
        for entry_id in delta.access_control.keys():  # noqa: SIM118 - a MapDelta is no dict
            before = delta.access_control.before(entry_id)
            if before is not None:
                self._remove(before)
            after = delta.access_control.after(entry_id)
            if after is not None:
                self._add(after)
        self._is_loaded = True

    def on_controller_change(self, leader: LeaderAndEpoch) -> None:
        """See `cluster.node.controller.loader.MetadataPublisher`: it decides nothing here."""

    def _add(self, record: AccessControlEntryRecord) -> None:
        pattern = (record.resource_type, record.pattern_type, record.resource_name)
        found = self._entries.setdefault(pattern, {})
        if not found and record.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(record.resource_type, Counter())
            lengths[len(record.resource_name)] += 1
        found[record.id] = _Entry(
            parse_principal(record.principal),
            record.host,
            AclOperation(record.operation),
            record.permission_type == AclPermissionType.ALLOW,
        )

    def _remove(self, record: AccessControlEntryRecord) -> None:
        pattern = (record.resource_type, record.pattern_type, record.resource_name)
        found = self._entries[pattern]
        del found[record.id]
        if found:
            return
        del self._entries[pattern]
        if record.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths[record.resource_type]
            length = len(record.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]

    # Decisions.

    def authorize(
        self,
        origin: Origin,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Return whether the sender of a request may do this. Raises AuthorizerNotReadyError.

        `log_if_denied`: whether a refusal is news, because just that was asked for.
        """
        principal = (origin.principal_type, origin.principal_name)
        if ":".join(principal) in self._super_users:
            return True
        reason = _NOT_READY if not self._is_loaded else "no entry allows it"
        allowed = self._is_loaded and self._decide(
            principal, host_of(origin.address), operation, resource_type, name
        )
        if not allowed and log_if_denied:
            self._trace(
                "denied",
                principal=":".join(principal),
                address=origin.address,
                operation=operation.name,
                resource_type=resource_type.name,
                resource=name,
                reason=reason,
            )
        if not self._is_loaded:
            raise AuthorizerNotReadyError
        return allowed

    def _decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        is_about, allowed = False, False
        for entry in self._about(resource_type, name):
            is_about = True
            if not (allowed and entry.allows) and entry.applies(principal, host, operation):
                if not entry.allows:
                    return False
                allowed = True
        return allowed if is_about else self._allow_by_default

    def _about(self, resource_type: AclResourceType, name: str) -> Iterator[_Entry]:
        """Yield the entries whose pattern means a resource."""
        patterns: list[_Pattern]
        patterns = [(resource_type, PatternType.LITERAL, literal) for literal in (name, WILDCARD)]
        patterns += [
            (resource_type, PatternType.PREFIXED, name[:length])
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        ]
        for pattern in dict.fromkeys(patterns):
            yield from self._entries.get(pattern, {}).values()


@lru_cache(maxsize=1024)
def host_of(address: str) -> str:
    """Return an address as Java writes it (InetAddress.getHostAddress), which entries name.

    IPv6 has all of its eight groups there, and an IPv4 address mapped to IPv6 is IPv4.
    """
    plain, percent, scope = address.partition("%")
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:  # a world without addresses
        return "0.0.0.0"  # noqa: S104 - as such a client's envelope says
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.partition("%")[0].split(":"))
    return ":".join(groups) + percent + scope
