"""Signatures of runs and batches, which `ssh-keygen -Y sign` makes and the gate verifies.

What is signed is the one file that stands for all others: of a run its chain of digests
(`results.store.digests`), with its judgement and its pages in it, of a batch of simulated seeds
`digests.sha256` (`harness.sim.batch.gate`). A signature lies beside that file, as ssh-keygen puts
it there, and is of the namespace `kraftprobe`. A policy names a file of allowed signers, in the
form that ssh-keygen(1) defines, and the principals of whom one must have signed.

A run that is judged again, or whose pages are made again, has another chain and is signed anew.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from results.store.digests import SIGNATURE_SUFFIX
from results.store.files import StoreError, read_bounded

NAMESPACE = "kraftprobe"
_SIGNATURE_BYTES_MAX = 1 << 16
_SIGNERS_BYTES_MAX = 1 << 20
_TIME_LIMIT_S = 60.0


class SignersError(StoreError):
    """Signatures cannot be verified with what a policy names; one line."""


@dataclass(frozen=True, slots=True)
class Signers:
    """Principals of whom one must have signed, and the file with their public keys."""

    allowed: Path
    principals: tuple[str, ...]

    def check(self) -> None:
        """Raise SignersError if ssh-keygen or a principal's key is missing."""
        if shutil.which("ssh-keygen") is None:
            raise SignersError(
                "ssh-keygen verifies signatures and is not on the PATH: install OpenSSH's client"
            )
        try:
            read_bounded(self.allowed, _SIGNERS_BYTES_MAX)
        except StoreError as error:
            raise SignersError(str(error)) from error
        for principal in self.principals:
            asked = ("match-principals", "-I", principal, "-f", str(self.allowed))
            if not _accepts(*asked, signed=b""):
                raise SignersError(f"{self.allowed}: it holds no key of {principal!r:.80}")


def signer_of(signed: Path, data: bytes, signers: Signers, what: str) -> tuple[str | None, str]:
    """Name the principal whose signature of a file lies beside it, or say why there is none.

    `data`: what was read of the file, once: a second look might see another. `what` is vouched for:
    a run, a batch. Raises StoreError where the signature cannot be read.
    """
    path = signed.with_name(signed.name + SIGNATURE_SUFFIX)
    try:
        path.lstat()
    except FileNotFoundError:
        return None, "it is not signed"
    signature = read_bounded(path, _SIGNATURE_BYTES_MAX)
    with tempfile.TemporaryDirectory(prefix="kraftprobe-signature-") as place:
        # ssh-keygen reads the very bytes that were bounded above, whatever the folder holds now.
        copy = Path(place, "signature")
        copy.write_bytes(signature)
        form = ("-n", NAMESPACE, "-s", str(copy))
        for principal in signers.principals:
            asked = ("verify", "-f", str(signers.allowed), "-I", principal, *form)
            if _accepts(*asked, signed=data):
                return principal, ""
        if _accepts("check-novalidate", *form, signed=data):
            why = "it is signed with a key that the policy does not name, or not for runs and now"
            return None, why
    return None, f"its signature is not one of this {what} as it is now"


def _accepts(*arguments: str, signed: bytes) -> bool:
    try:
        done = subprocess.run(  # noqa: S603  (arguments of a policy, each behind its option)
            ("ssh-keygen", "-Y", *arguments),  # noqa: S607  (the user's own, from the PATH)
            input=signed,
            capture_output=True,
            timeout=_TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StoreError("ssh-keygen did not end: the signature is not verified") from error
    return done.returncode == 0
