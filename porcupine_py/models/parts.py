"""What strings are made of, where that is possible in one way only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

_LENGTHS_MAX = 64
"""Texts of more lengths than that are not looked for."""


@dataclass(slots=True)
class Parts:
    """Every string that was got, taken apart in the only way there is.

    Strings are numbered: those that were got, and those that they were on the way there. A string
    that nobody can have made has no number. The first text of a string is what was put, or was
    there first; each further one was appended.
    """

    strings: dict[str, int] = field(default_factory=dict)
    """String that was got -> its number."""
    begins: dict[str, int] = field(default_factory=dict)
    """First text of such a string -> the number of that text alone."""
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Appended text that they show -> (number of the string before, number of it after)."""
    first: list[int] = field(default_factory=list)
    """Of each number: that of its first text alone."""
    shown_by: list[str] = field(default_factory=list)
    """Of each number: a string that was got and begins with it, or is it."""
    torn: tuple[str, str] | None = None
    """Two strings that show a text behind two strings though it was appended once."""

    def origin(self, f: str, text: object) -> int | None:
        """Return the number of the first text of what an operation shows or makes, None: unseen."""
        if type(text) is not str:
            return None
        number = self.strings.get(text) if f == "get" else self.begins.get(text)
        if f == "append":
            number = self.steps[text][1] if text in self.steps else None
        return None if number is None else self.first[number]


@dataclass(slots=True)
class _Reached:
    """A place in a string at which a text may end."""

    ways: int
    """From the beginning to here; 2 stands for more as well."""
    before: int
    """The place where the last text began; of a first text -1."""
    text: str
    number: int | None = None


def parts_of(got: Sequence[str], first: Sequence[str], appended: Sequence[str]) -> Parts | None:
    """Take strings apart into one of `first` and any of `appended`; None where there are two ways.

    Also None where a text was put or appended twice and is shown, or is empty and appended. A place
    is reached in one way exactly when it is the end of a text in one way from one place that is, so
    that the ways are counted from left to right. Sorted strings share what they begin with, which
    is gone through once. O(total length of what is new in each, times the number of lengths).
    """
    begins, texts = Counter(first), Counter(appended)
    first_lengths, lengths = (sorted(set(map(len, each))) for each in (begins, texts))
    if "" in texts or len(lengths) > _LENGTHS_MAX:
        return None
    parts = Parts()
    reached: dict[int, _Reached] = {}
    last: str | None = None
    for string in sorted(set(got)):
        known = -1 if last is None else _common_length(last, string)
        reached = {place: at for place, at in reached.items() if place <= known}
        _reach(reached, string, known, (begins, texts), (first_lengths, lengths))
        last, end = string, reached.get(len(string))
        if end is not None and end.ways > 1:
            return None
        if end is not None:
            _number(parts, reached, string)
    return None if any(texts[text] > 1 for text in parts.steps) else parts


def _common_length(left: str, right: str) -> int:
    """Return the length of what both begin with."""
    low, high = 0, min(len(left), len(right))
    if right.startswith(left):
        return len(left)
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _reach(
    reached: dict[int, _Reached],
    string: str,
    known: int,
    texts: tuple[Counter[str], Counter[str]],
    lengths: tuple[Sequence[int], Sequence[int]],
) -> None:
    """Add the places behind `known`, up to which `reached` has all."""
    (begins, appended), (first_lengths, lengths_appended) = texts, lengths
    for length in first_lengths:
        text = string[:length]
        if known < length <= len(string) and text in begins:
            reached[length] = _Reached(begins[text], -1, text)
    left = [place for place in reached if place > known - max(lengths_appended, default=0)]
    heapify(left)
    while left:
        place = heappop(left)
        for end in [place + length for length in lengths_appended]:
            if not known < end <= len(string) or string[place:end] not in appended:
                continue
            if end not in reached:
                reached[end] = _Reached(reached[place].ways, place, string[place:end])
                heappush(left, end)
            else:
                reached[end].ways = 2


def _number(parts: Parts, reached: dict[int, _Reached], string: str) -> None:
    """Number a string, and those that it was before."""
    path = [len(string)]
    while reached[path[-1]].number is None and reached[path[-1]].before >= 0:
        path.append(reached[path[-1]].before)
    for place in reversed(path):
        at, number = reached[place], len(parts.first)
        if at.number is not None:
            continue
        at.number = number
        parts.shown_by.append(string)
        if at.before < 0:
            parts.begins[at.text] = number
            parts.first.append(number)
            continue
        before = reached[at.before].number
        assert before is not None, "numbered from the beginning"
        parts.first.append(parts.first[before])
        if parts.steps.setdefault(at.text, (before, number))[1] != number and parts.torn is None:
            parts.torn = (parts.shown_by[parts.steps[at.text][1]], string)
    number_of_all = reached[len(string)].number
    assert number_of_all is not None
    parts.strings[string] = number_of_all
