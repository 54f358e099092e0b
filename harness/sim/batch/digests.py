"""`digests.sha256`: all files of a finished batch of seeds, in the form that `sha256sum -c` reads.

Its request with the digest of the code, each seed's row, the plans of failures and the summary are
among them, so that a signature of this one file (`results.gate.signature`) vouches for the batch:
no seed can be changed, added, removed or taken from another one. What a signature proves is that
its signer saw this batch; the gate still recomputes the verdict from its rows, and with
--judge-again runs the seeds.
"""

from __future__ import annotations

from pathlib import Path

from results.gate.signature import Signers, signer_of
from results.store.digests import SIGNATURE_SUFFIX, digest_of, files_below
from results.store.files import StoreError, read_bounded, write_atomically

FILE = "digests.sha256"
_BYTES_MAX = 1 << 26


def write_digests(folder: Path) -> None:
    """Write the digests of a batch that has finished. Raises StoreError, OSError."""
    write_atomically(folder / FILE, _digests(folder))


def batch_signer(folder: Path, signers: Signers) -> tuple[str | None, str]:
    """Name the principal who signed a batch, or say why there is none. Raises StoreError."""
    signer, why = signer_of(folder / FILE, signers, "batch")
    if signer is not None and read_bounded(folder / FILE, _BYTES_MAX) != _digests(folder):
        return None, f"its files are not those of {FILE}, which {signer} signed"
    return signer, why


def _digests(folder: Path) -> bytes:
    lines = []
    for name in files_below(folder):
        if name in {FILE, FILE + SIGNATURE_SUFFIX}:
            continue
        sha256 = digest_of(folder / name).sha256
        if sha256 is None or not name.isprintable():  # a line break would make two files of it
            raise StoreError(f"{folder / name}: this is no file of a batch")
        lines.append(f"{sha256}  {name}\n")
    return "".join(lines).encode()
