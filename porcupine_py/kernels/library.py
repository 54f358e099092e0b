"""The C library: which functions it has, what they take, and NumPy arrays for their pointers.

Calls leave the interpreter's lock alone. Arrays are checked for type and layout on their way, since
the library cannot; where they came from elsewhere, they are made right first.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_void_p
from enum import IntEnum
from pathlib import Path
from struct import unpack_from
from typing import Any, Final

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import NDArray

from porcupine_py.columns import Bools, Columns, Int64s


class LibraryError(Exception):
    """There is no library, or it cannot be loaded."""


class Replayed(IntEnum):
    """What `replay` says of an order (replaying.c)."""

    ACCEPTED = 0
    TWICE = 1
    MISSING = 2
    UNREAL = 3
    MIXED = 4
    EARLY = 5
    UNFIT = 6
    NO_MEMORY = 7


class History(Structure):
    """struct history (operations.h)."""

    _fields_ = (
        ("count", c_int32),
        *((name, c_void_p) for name in ("code", "a", "b", "invoke_ns", "complete_ns", "info")),
    )


class Viable(Structure):
    """struct viable (operations.h)."""

    _fields_ = (("table", c_void_p), ("slots", c_int64))


class _Spans(Structure):
    """struct spans (orders.c)."""

    _fields_ = tuple((name, c_void_p) for name in ("from", "by", "by_from", "by_by"))


class _Timed(Structure):
    """struct timed (orders.c)."""

    _fields_ = (("ns", c_void_p), ("segment", c_void_p), ("count", c_int64))


_COLUMNS = {
    "key": np.int32,
    "type": np.int8,
    "f": np.int16,
    "error": np.int32,
    "input": np.int32,
    "expected": np.int32,
    "output": np.int32,
    "invoke_ns": np.int64,
    "complete_ns": np.int64,
}


class _Columns(Structure):
    """struct columns (replaying.c)."""

    _fields_ = (
        ("count", c_int64),
        ("keys", c_int64),
        *((name, c_void_p) for name in (*_COLUMNS, "refusals")),
        *((name, c_int64) for name in ("read", "write", "cas", "initial")),
    )


_LAYOUT: Final = ("C_CONTIGUOUS", "ALIGNED")
_int64s = ndpointer(np.int64, ndim=1, flags=_LAYOUT)
_outcomes = ndpointer(np.int64, ndim=2, flags=_LAYOUT)
_bools = ndpointer(np.bool_, ndim=1, flags=_LAYOUT)
_points = ndpointer(np.uint32, ndim=1, flags=_LAYOUT)
_ARRAYS = {_int64s, _outcomes, _bools, _points}
_history, _viable = POINTER(History), POINTER(Viable)

_FUNCTIONS: dict[str, tuple[type[Any] | None, tuple[Any, ...]]] = {
    "digest_of_sources": (c_char_p, ()),
    "prefix_hashes": (None, (_points, _int64s, c_int64, _int64s)),
    "factors": (None, (c_int64, _int64s)),
    "table_of": (None, (_int64s, c_int64, _int64s, c_int64)),
    "look_up": (None, (_viable, _int64s, c_int64, _bools)),
    "wgl_new": (c_void_p, (_history, _viable, c_int64)),
    "wgl_free": (None, (c_void_p,)),
    "wgl_run": (c_int32, (c_void_p, c_int64, c_int64)),
    "wgl_report": (None, (c_void_p, _int64s)),
    "wgl_order": (None, (c_void_p, _int64s)),
    "wgl_run_keys": (
        None,
        (_history, _int64s, c_int64, _viable, *(c_int64,) * 3, _int64s, _outcomes),
    ),
    "frontier_new": (c_void_p, (_history, _int64s, *(c_int64,) * 3)),
    "frontier_free": (None, (c_void_p,)),
    "frontier_run": (c_int32, (c_void_p, c_int64, c_int64, c_int64)),
    "frontier_report": (None, (c_void_p, _int64s)),
    "frontier_order": (c_int64, (c_void_p, _int64s)),
    "fifo": (c_int64, (POINTER(_Spans), POINTER(_Spans), c_int64, _int64s)),
    "merged": (None, (POINTER(_Timed), _bools, POINTER(_Timed), _int64s, _int64s)),
    "places": (c_int64, (_int64s, c_int64, _int64s, _int64s, c_int64, _int64s)),
    "replay": (c_int32, (POINTER(_Columns), _int64s, c_int64, _bools, POINTER(c_int64))),
}


OPERATIONS_MAX = 1 << 29
"""Of one history: the library counts them, twice, in 32 bits."""


def refuse_beyond_32_bits(count: int) -> None:
    """Raise MemoryError for as many operations, or values, as the library cannot count."""
    if count >= OPERATIONS_MAX:
        raise MemoryError(f"{count} operations of one history")


def right(array: NDArray[Any], kind: type[Any] = np.int64) -> NDArray[Any]:
    """Return the array, or a copy, as the library takes it."""
    return np.require(array, kind, _LAYOUT)


def _is_cut_short(data: bytes) -> bool:
    """Say whether an ELF file (of 64 bits) ends before its table of sections, the last thing in it.

    Loading it would kill the process (SIGBUS).
    """
    if len(data) < 64 or data[:5] != b"\x7fELF\2":
        return False  # what is no such file, or not even its header, is refused in good order
    (table,), (size, count) = unpack_from("=Q", data, 40), unpack_from("=HH", data, 58)
    return len(data) < int(table) + int(size) * int(count)


def _room(count: int) -> int:
    """Refuse what there is no memory for: the library counts below 0 then."""
    if count < 0:
        raise MemoryError
    return count


class _Held:
    """A structure of pointers, and the arrays that they lead to."""

    def __init__(self, kind: type[Structure], arrays: Sequence[NDArray[Any]], *rest: int) -> None:
        self.arrays = arrays
        self.pointer = byref(kind(*(array.ctypes.data for array in arrays), *rest))


class Kernels:
    """The loaded library. Raises LibraryError."""

    def __init__(self, path: Path) -> None:
        try:
            if _is_cut_short(path.read_bytes()):
                raise LibraryError(f"{path} is cut short")
            self._library = CDLL(str(path))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(self._library, name)
                function.restype = result
                function.argtypes = [c_void_p if x in _ARRAYS else x for x in arguments]
        except FileNotFoundError as error:
            raise LibraryError(f"{path} is missing") from error
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{path} cannot be loaded ({error})") from error
        self.sources: str = self.call("digest_of_sources").decode()
        """The digest of the sources that it was built from."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the library. Raises TypeError for an array that it does not take."""
        # Not left to ctypes, which makes an ArgumentError of any exception here, also of Ctrl-C.
        pairs = zip(_FUNCTIONS[name][1], arguments, strict=True)
        given = [kind.from_param(x).data if kind in _ARRAYS else x for kind, x in pairs]
        return getattr(self._library, name)(*given)

    def prefix_hashes(self, points: NDArray[np.uint32], ends: Int64s) -> Int64s:
        """Return the hash of what ends with each code point; `ends`: of each text."""
        hashes = np.empty(len(points), np.int64)
        self.call("prefix_hashes", right(points, np.uint32), right(ends), len(ends), hashes)
        return hashes

    def factors(self, count: int) -> Int64s:
        """Return the factors of strings of 0, 1, ... code points."""
        powers = np.empty(count, np.int64)
        self.call("factors", count, powers)
        return powers

    def table_of(self, hashes: Int64s) -> Int64s:
        """Return hashes as the table in which the library looks them up."""
        table = np.empty(1 << max(1, (2 * len(hashes) - 1).bit_length()), np.int64)
        self.call("table_of", right(hashes), len(hashes), table, len(table))
        return table

    def look_up(self, table: Int64s, hashes: Int64s) -> Bools:
        """Say of each hash whether it is in the table."""
        found = np.empty(len(hashes), np.bool_)
        viable = Viable(table.ctypes.data, len(table))
        self.call("look_up", byref(viable), right(hashes), len(hashes), found)
        return found

    def fifo(self, times: Sequence[Int64s], orders: Sequence[Int64s]) -> Int64s:
        """Sort values so that none precedes one that it must follow; shorter where none can be.

        `times`: when each went in at the earliest and the latest, and came out; `orders` of these.
        """
        spans = [
            _Held(_Spans, [right(x) for x in (*times[at : at + 2], *orders[at : at + 2])])
            for at in (0, 2)
        ]
        count = len(times[0])
        order = np.empty(count, np.int64)
        placed = self.call("fifo", spans[0].pointer, spans[1].pointer, count, order)
        return order[: _room(placed)]

    def merge(
        self, into: tuple[Int64s, Int64s], empty: Bools, out: tuple[Int64s, Int64s]
    ) -> tuple[Int64s, Int64s]:
        """Return where what goes in (or found nothing), and what comes out, stand in one sequence.

        Both are sorted by (time, segment).
        """
        sides = [_Held(_Timed, [right(x) for x in side], len(side[0])) for side in (into, out)]
        at_into, at_out = (np.empty(len(side[0]), np.int64) for side in (into, out))
        pointers = sides[0].pointer, right(empty, np.bool_), sides[1].pointer
        self.call("merged", *pointers, at_into, at_out)
        return at_into, at_out

    def places(self, due: Int64s, released: Int64s, wanted: Int64s) -> Int64s | None:
        """Return the additions that have a place before reads, in order; None: there is no way.

        See orders.c.
        """
        order = np.empty(len(due), np.int64)
        reads = right(released), right(wanted)
        placed = self.call("places", right(due), len(due), *reads, len(wanted), order)
        return None if placed == -1 else order[: _room(placed)]

    def replay(
        self,
        columns: Columns,
        order: NDArray[np.integer],
        judged: Bools,
        refusals: Bools,
        names: Sequence[int],
    ) -> tuple[Replayed, int]:
        """Return (what is wrong with an order, the row where).

        `judged`: of each key, whether its operations must be there; `refusals`: of each error,
        whether a compare-and-set that failed with it was refused; `names`: the codes of read, write
        and cas, and of the first value.
        """
        arrays = [right(getattr(columns, name), kind) for name, kind in _COLUMNS.items()]
        arrays.append(right(refusals, np.bool_))
        pointers = (array.ctypes.data for array in arrays)
        table = _Columns(len(columns), len(judged), *pointers, *map(int, names))
        where = c_int64(0)
        rows = right(order)
        status = self.call(
            "replay", byref(table), rows, len(rows), right(judged, np.bool_), byref(where)
        )
        if status == Replayed.NO_MEMORY:
            raise MemoryError
        return Replayed(status), where.value
