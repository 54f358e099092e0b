r"""A key of the user's vouches for a batch of simulated seeds, for a gate on another machine.

`DIR/signature.json`, as of a run (`results.signature`). Signed are the paths and digests of all
files of the batch: its request with the digest of the code, each seed's row, the plans of failures
and the summary, as

    kraftprobe batch 1\n[["batch.json", <sha256>], ...]\n

so that no seed can be changed, added, removed or taken from another batch. Only a batch that has
run to its end, and whose files do not contradict each other, is signed. What the signature proves
is that a holder of the key saw this batch; the gate still recomputes the verdict from its rows, and
with --judge-again runs the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.sim.batch_rows import read_batch, wrong_summary
from results.digests import digest_of, files_below
from results.files import StoreError
from results.signature import TrustedKey, signer_at, write_signature

FILE = "signature.json"


def sign_batch(folder: Path, key: Ed25519PrivateKey) -> None:
    """Sign a batch, in place of any earlier signature.

    Raises StoreError where it has not run to its end or is damaged, and OSError.
    """
    batch = read_batch(folder)
    if (wrong := wrong_summary(folder, batch.summary)) is not None:
        raise StoreError(f"{folder}: {wrong}; it is not signed")
    write_signature(folder / FILE, key, _message(folder))


def batch_signer(folder: Path, keys: Iterable[TrustedKey]) -> tuple[str | None, str]:
    """Name the key that signed a batch, or say why none of these did. Raises StoreError."""
    return signer_at(folder / FILE, keys, _message(folder), "batch")


def _message(folder: Path) -> bytes:
    found = []
    for name in files_below(folder):
        if name == FILE:
            continue
        sha256 = digest_of(folder / name).sha256
        if sha256 is None:
            raise StoreError(f"{folder / name}: this is no file that could be signed")
        found.append([name, sha256])
    return f"kraftprobe batch 1\n{json.dumps(found)}\n".encode("ascii")
