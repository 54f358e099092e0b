r"""`signature.json`: a key of the user's vouches for a run, so that another machine can trust it.

Signed (Ed25519, RFC 8032) are the run's name, the head of its chain of digests, which stands for
everything that was recorded (results/digests.py), and the digests of its judgement, as

    kraftprobe run 1\n<run>\n<head>\n<sha256 of results.json>\n<sha256 of certificates.jsonl>\n

A judgement that is made anew has other digests (its time is in it) and has to be signed anew.
Of a batch of simulated seeds it is another text (`harness.sim.batch_signature`).

| field | type | meaning |
|---|---|---|
| `version` | integer | 1 |
| `key` | string | the public key that fits, as PEM: to find it among many, never to be believed |
| `signature` | string | of the text above, in base64 |

Keys are files in PEM, as openssl and this module make them: PKCS 8 for the private and
SubjectPublicKeyInfo for the public one. A gate trusts the public keys that its policy names and no
other.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from results.digests import Chain, differs, read_chain
from results.files import StoreError, read_bounded, read_json_object, write_json
from results.store import RunStore

VERSION = 1
_KEY_BYTES_MAX = 1 << 16
_PEM = serialization.Encoding.PEM


class KeyFileError(StoreError):
    """A file holds no key that can be used; one line."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key, and the file that holds it."""

    name: str
    key: Ed25519PublicKey


def make_key(path: Path) -> Path:
    """Make a private key at `path`, which only its owner may read, and return the public one's.

    Raises OSError, FileExistsError among them: a key is never overwritten.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = path.with_name(f"{path.name}.pub")
    for target, data, mode in ((path, private, 0o600), (public, _pem_of(key.public_key()), 0o644)):
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    return public


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key without a password. Raises KeyFileError."""
    data = _bytes_of(path)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path}: holds no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path}: the key is not of the kind Ed25519")
    return key


def read_public_key(path: Path) -> TrustedKey:
    """Read a public key. Raises KeyFileError."""
    data = _bytes_of(path)
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path}: holds no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path}: the key is not of the kind Ed25519")
    return TrustedKey(path.name, key)


def sign(store: RunStore, key: Ed25519PrivateKey) -> None:
    """Sign a judged run, in place of any earlier signature.

    Raises StoreError where the run is not recorded to its end, its judgement is not that which was
    stored, or a file is not what was recorded; and OSError.
    """
    chain = read_chain(store.digests_path)
    if not chain.ended:
        raise StoreError(f"{store.name}: it was not recorded to its end; such a run is not signed")
    for name, known in (*chain.files.items(), *chain.judged.items()):
        if differs(store.folder / name, known):
            raise StoreError(f"{store.name}: {name} is not what was recorded; it is not signed")
    message = _message(store, chain)
    if message is None:
        raise StoreError(f"{store.name}: it was not judged; only a judged run is signed")
    write_signature(store.signature_path, key, message)


def write_signature(path: Path, key: Ed25519PrivateKey, message: bytes) -> None:
    """Sign a text, in place of any earlier signature at `path`. Raises OSError."""
    document = {
        "version": VERSION,
        "key": _pem_of(key.public_key()).decode("ascii"),
        "signature": base64.b64encode(key.sign(message)).decode("ascii"),
    }
    write_json(path, document)


def signer_of(store: RunStore, keys: Iterable[TrustedKey]) -> tuple[str | None, str]:
    """Name the key that signed a run, or say why none of these did.

    Raises StoreError for a chain that cannot be read. That the files are those of the chain is for
    the gate to compare.
    """
    if not store.signature_path.exists():
        return None, "it is not signed"
    message = _message(store, read_chain(store.digests_path))
    if message is None:
        return None, "its signature is of a judgement that is not there"
    return signer_at(store.signature_path, keys, message, "run")


def signer_at(
    path: Path, keys: Iterable[TrustedKey], message: bytes, what: str
) -> tuple[str | None, str]:
    """Name the key of which `path` holds a signature of a text, or say why it is none of these.

    `what` was signed: a run, a batch. Raises StoreError where the file is no JSON.
    """
    if not path.exists():
        return None, "it is not signed"
    document = read_json_object(path)
    try:
        if document["version"] != VERSION:
            return None, f"its signature is of version {document['version']!r:.40}, not {VERSION}"
        signature = base64.b64decode(document["signature"], validate=True)
    except (KeyError, ValueError, TypeError):
        return None, "its signature.json is damaged"
    for trusted in keys:
        try:
            trusted.key.verify(signature, message)
        except InvalidSignature:
            continue
        return trusted.name, ""
    return None, _why_not(document.get("key"), signature, message, what)


def _why_not(claimed: object, signature: bytes, message: bytes, what: str) -> str:
    """Say whether an unknown key signed this, or some key signed something else."""
    try:
        key = serialization.load_pem_public_key(str(claimed).encode("ascii", "replace"))
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, message)
            return "it is signed with a key that the policy does not name"
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        pass
    return f"its signature is not one of this {what} as it is now"


def _message(store: RunStore, chain: Chain) -> bytes | None:
    names = (store.results_path.name, store.certificates_path.name)
    judged = [found.sha256 for name in names if (found := chain.judged.get(name)) is not None]
    if len(judged) < len(names) or None in judged:
        return None
    run = str(store.plan().get("run"))
    return "\n".join(["kraftprobe run 1", run, chain.head, *map(str, judged), ""]).encode(
        "utf-8", "surrogateescape"
    )


def _pem_of(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bounded(path, _KEY_BYTES_MAX)
    except StoreError as error:
        raise KeyFileError(str(error)) from error
