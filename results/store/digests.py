"""`digests.jsonl`: what every file of a run was when it was recorded, in one chain.

One JSON object a line, only ever appended to:

| field | type | meaning |
|---|---|---|
| `step` | string | `recorded`, `ended`, `found` or `judged`, see below |
| `path` | string, null | the file, in the run folder; null for `ended` |
| `bytes` | integer, null | its size |
| `sha256` | string, null | of its content; null where it was no regular file, or unreadable |
| `previous` | string, null | SHA-256 of the line before, without its newline; null in the first |

`plan.json` is `recorded` before anything starts. When the nodes are down and their logs decoded,
the harness records the journal and every file of every node, and then that the run `ended`: it
writes nothing but `judged` behind that. A run of a killed harness has no such line; what
`check` finds in it later is `found`, which vouches for nothing before that moment. Each judgement
appends its `certificates.jsonl` and `results.json` as `judged`, and, when they are written, the
pages that show it, `junit.xml` and `report.html`; the last of these counts, and pages only behind
the judgement that they show.

What the chain proves: no file, and no line but the last, can be changed, added or removed unless
every later line is written anew, and the judgement, which holds the head of what it judged, too.
It has no key: it does not find that the chain and everything that follows from it were rewritten.
Sign the file (`results.gate.signature`), copy the head that a judgement prints to where a forger
cannot write, or judge again from the journal (`gate --judge-again`), which finds all but a forged
journal and forged logs.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extensions.plain_files import open_plain
from results.store.files import StoreError, parse_json, read_bounded

FILE = "digests.jsonl"
SIGNATURE_SUFFIX = ".sig"
"""What ssh-keygen adds to the name of the file that it signs."""
SIGNATURE_FILE = FILE + SIGNATURE_SUFFIX
_BYTES_MAX = 1 << 26
JUDGEMENT = frozenset({"certificates.jsonl", "results.json"})
"""What makes the pages of an earlier judgement those of another."""
_FIELDS = frozenset({"step", "path", "bytes", "sha256", "previous"})


class Step(enum.StrEnum):
    """Why a line was written."""

    RECORDED = "recorded"
    ENDED = "ended"
    FOUND = "found"
    JUDGED = "judged"


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file's content; both None where there was none that could be read."""

    size_bytes: int | None
    sha256: str | None


NO_FILE = FileDigest(None, None)


@dataclass(frozen=True, slots=True)
class Chain:
    """All that `digests.jsonl` says. Made by `read_chain`, which verifies its links."""

    files: Mapping[str, FileDigest]
    """By path, what was recorded or found."""
    judged: Mapping[str, FileDigest]
    """By path, what the last judgement stored."""
    ended: bool
    """Whether the harness recorded the run to its end."""
    head: str
    """Digest of the last line that is not a judgement's: it stands for all that was recorded."""
    last: str
    """Digest of the very last line."""
    whole_bytes: int
    """Length of all whole lines; what follows was torn by a kill."""
    data: bytes = field(repr=False)
    """The file as it was read: what a signature must be of."""


def digest_of(path: Path) -> FileDigest:
    """Digest a regular file, in pieces. Anything else, and what is unreadable, has no digest.

    A link is no file: what it points to can change without the run's folder.
    """
    try:
        with open_plain(path, follow=False) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return FileDigest(file.tell(), sha256)
    except OSError:
        return NO_FILE


def differs(path: Path, recorded: FileDigest) -> bool:
    """Whether a file is not what was recorded. One of another size is not read for that."""
    try:
        size_bytes = path.lstat().st_size
    except OSError:
        size_bytes = None
    return size_bytes != recorded.size_bytes or digest_of(path) != recorded


def read_chain(path: Path) -> Chain:
    """Read and verify a chain. A torn last line is left out.

    Raises StoreError, naming the line, where the file is missing, a link is broken, or a line is
    none that could stand there.
    """
    data = read_bounded(path, _BYTES_MAX)
    whole = data[: data.rfind(b"\n") + 1]
    files: dict[str, FileDigest] = {}
    judged: dict[str, FileDigest] = {}
    ended = False
    head = last = None
    for number, line in enumerate(whole.splitlines(), start=1):
        where = f"{path}, line {number}"
        fields = _fields(line, where)
        if fields["previous"] != last:
            raise StoreError(f"{where}: it does not follow from the line before: the chain is cut")
        step, name = fields["step"], fields["path"]
        found = FileDigest(fields["bytes"], fields["sha256"])
        last = hashlib.sha256(line).hexdigest()
        if step is Step.JUDGED:
            if name in JUDGEMENT:  # pages of an earlier judgement say nothing of this one
                judged = {kept: judged[kept] for kept in judged.keys() & JUDGEMENT}
            judged[name] = found
            continue
        head = last
        if ended or name in files or (not files and name != "plan.json"):
            raise StoreError(f"{where}: there can be no such line at this place")
        if step is Step.ENDED:
            ended = True
        else:
            files[name] = found
    if head is None or last is None:
        raise StoreError(f"{path}: it holds no whole line")
    return Chain(files, judged, ended, head, last, len(whole), data)


def append(
    path: Path, rows: Iterable[tuple[Step, str | None, FileDigest]], chain: Chain | None
) -> None:
    """Append lines behind those of `chain`, durably; a torn last line is cut off first.

    `chain` is what the file holds, None where it is to be made. The caller holds the run's lock.
    """
    previous = None if chain is None else chain.last
    lines = []
    for step, name, found in rows:
        fields = {
            "step": str(step),
            "path": name,
            "bytes": found.size_bytes,
            "sha256": found.sha256,
            "previous": previous,
        }
        line = json.dumps(fields, separators=(",", ":")).encode("ascii")
        previous = hashlib.sha256(line).hexdigest()
        lines.append(line + b"\n")
    made = os.O_EXCL | os.O_CREAT if chain is None else 0
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_APPEND | made, 0o644)
    with os.fdopen(fd, "wb") as file:
        if chain is not None:
            file.truncate(chain.whole_bytes)
        file.write(b"".join(lines))
        file.flush()
        os.fsync(fd)


def files_below(folder: Path) -> Iterator[str]:
    """Paths of everything below a folder that is no folder, sorted, relative to it."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in sorted([*names, *links]):
            yield (Path(parent) / name).relative_to(folder).as_posix()


def _fields(line: bytes, where: str) -> dict[str, Any]:
    try:
        fields = parse_json(line.decode("ascii"))
        step = Step(fields["step"])
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise StoreError(f"{where}: it is no line of this file") from error
    name = fields.get("path")
    good = (
        fields.keys() == _FIELDS
        and (isinstance(name, str) and _is_inside(name) if step is not Step.ENDED else name is None)
        and isinstance(fields["bytes"], int | None)
        and isinstance(fields["sha256"], str | None)
        and isinstance(fields["previous"], str | None)
    )
    if not good:
        raise StoreError(f"{where}: it is no line of this file")
    return {**fields, "step": step}


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return "\0" not in name and not name.startswith("/") and not {"", ".", ".."} & set(parts)
