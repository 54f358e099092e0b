"""Damage and restore the files of a dead node.

What is replaced is kept in a folder beside (`saved`), one numbered file for each damage with a JSON
line that says what it was, so that a restore puts everything back in reverse order. Paths are
relative to `folder`.
"""

import contextlib
import json
import os
import shutil


def files(folder: str) -> "dict[str, int]":
    """Path -> size in bytes of every file of the node's, in order."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            if not name.startswith(".kraftprobe-") and name != ".lock":
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found[path] = os.path.getsize(os.path.join(place, name))
    return dict(sorted(found.items()))


def read(folder: str, path: str, most: "int | None") -> str:
    """Return a file's bytes, or the first so many of them, in hexadecimal digits."""
    with open(os.path.join(folder, path), "rb") as file:
        return file.read(-1 if most is None else most).hex()


def flip_bit(folder: str, saved: str, path: str, position: int, bit: int) -> None:
    """Flip a bit of the byte at a position; bit 0 is the lowest."""
    file = os.open(os.path.join(folder, path), os.O_RDWR)
    old = os.pread(file, 1, position)
    _keep(saved, path, position, os.fstat(file).st_size, old)
    os.pwrite(file, bytes([old[0] ^ 1 << bit]), position)
    _close(file)


def truncate(folder: str, saved: str, path: str, position: int) -> None:
    """Cut a file off at a position."""
    data = _whole(folder, path)
    _keep(saved, path, position, len(data), data[position:])
    file = os.open(os.path.join(folder, path), os.O_RDWR)
    os.ftruncate(file, position)
    _close(file)


def wipe(folder: str, saved: str) -> None:
    """Remove every file and folder."""
    for path in files(folder):
        _keep(saved, path, 0, None, _whole(folder, path))
        os.unlink(os.path.join(folder, path))
        _sync_folder(os.path.dirname(os.path.join(folder, path)))
    for name in os.listdir(folder):
        if os.path.isdir(os.path.join(folder, name)):
            shutil.rmtree(os.path.join(folder, name))


def restore(folder: str, saved: str) -> int:
    """Put back everything that was kept, newest first; how much it was."""
    names = os.listdir(saved) if os.path.isdir(saved) else []
    numbers = sorted({name.split(".")[0] for name in names})
    is_wiped = False
    for number in reversed(numbers):
        with open(os.path.join(saved, f"{number}.json")) as text:
            line = json.load(text)
        with open(os.path.join(saved, f"{number}.bytes"), "rb") as file:
            old = file.read()
        if line["size"] is None and not is_wiped:
            is_wiped = True
            for path in files(folder):
                os.unlink(os.path.join(folder, path))
        _put(folder, line["path"], old, line["position"], line["size"])
    forget(saved)
    return len(numbers)


def forget(saved: str) -> None:
    """Throw away what was kept: the damage stays."""
    shutil.rmtree(saved, ignore_errors=True)


def _keep(saved: str, path: str, position: int, size: "int | None", data: bytes) -> None:
    os.makedirs(saved, exist_ok=True)
    number = len(os.listdir(saved)) // 2
    with open(os.path.join(saved, f"{number:06d}.bytes"), "wb") as file:
        file.write(data)
    with open(os.path.join(saved, f"{number:06d}.json"), "w") as text:
        json.dump({"path": path, "position": position, "size": size}, text)


def _whole(folder: str, path: str) -> bytes:
    with open(os.path.join(folder, path), "rb") as file:
        return file.read()


def _put(folder: str, path: str, old: bytes, position: int, size: "int | None") -> None:
    """Put old bytes in their place; nothing is left behind them where they were the file's last."""
    place = os.path.join(folder, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    file = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
    if size is None or position + len(old) >= size:
        os.ftruncate(file, position)
    view = memoryview(old)
    while view:
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written
    _close(file)
    _sync_folder(os.path.dirname(place))


def _close(file: int) -> None:
    os.fsync(file)
    os.close(file)


def _sync_folder(place: str) -> None:
    _close(os.open(place, os.O_RDONLY))
