"""Porcupine's public histories, as they are stored, and their known verdicts."""

import json
import tarfile
from functools import cache
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "data" / "histories" / "porcupine.tar.gz"


@cache
def members() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        files = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in files}


def expected() -> dict[str, dict]:
    return json.loads(members()["expected.json"])


JUDGED = sorted(name for name, known in expected().items() if known["valid"] is not None)
