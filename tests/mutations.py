"""Files that were edited, cut or given other content, for tests of readers of untrusted files."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

HUGE = "9" * 5000
NASTY = (
    *("1e999", "-1e999", "NaN", "Infinity", "1/0", "1/3", f"1/{HUGE}", "123N", "1.5M", "-0.0"),
    *(HUGE, f"-{HUGE}", str(2**63), str(-(2**63) - 1), str(2**63 - 1), "-1", "0.1e-9999", "1e308"),
    *("null", "true", "[]", "{}", "[" * 3000, '{"a":' * 3000, "#{", "]", "}", '"', "\\", "\x00"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0001"', "\ud7ff", "\n", "\r\n", "\u2028", "\ufeff"),
    *("##NaN", "#inst", "#_", ":", "nil", "~nobody-here/x", "'", "'''", "1979-05-27T07:32:00Z"),
)
"""What trips readers: numbers beyond every limit, deep nesting, half of something, other formats."""


def mutated(*originals: bytes) -> st.SearchStrategy[bytes]:
    """Bytes of any kind, and originals in which a few places are another text, gone or doubled."""
    return st.one_of(st.binary(max_size=200), *(_edited(original) for original in originals))


@st.composite
def _edited(draw: st.DrawFn, original: bytes) -> bytes:
    data = original
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(("nasty", "number", "cut", "double", "bytes")))
        if kind == "number":
            begin, end = _number(data, begin)
        inserted = {
            "nasty": lambda: draw(st.sampled_from(NASTY)).encode("utf-8", "surrogatepass"),
            "number": lambda: draw(st.sampled_from(NASTY)).encode("utf-8", "surrogatepass"),
            "cut": lambda: b"",
            "double": lambda b=begin, e=end, d=data: 2 * d[b:e],
            "bytes": lambda: draw(st.binary(max_size=4)),
        }[kind]()
        data = data[:begin] + inserted + data[end:]
    return data


def _number(data: bytes, begin: int) -> tuple[int, int]:
    """The next number behind a place, so that another value stands in the place of a value."""
    while begin < len(data) and not data[begin : begin + 1].isdigit():
        begin += 1
    end = begin
    while end < len(data) and data[end : end + 1].isdigit():
        end += 1
    return begin, end


VALUES = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1.5, 1e308, float("inf"), float("nan"), "", "x"),
    *(
        "~",
        "1",
        "\ud800",
        "a\nb",
        "@A",
        [],
        [[]],
        {},
        {"a": 1},
        ["x"],
        [None],
        {"": {}},
        "9" * 5000,
    ),
)
"""What stands in a document where something else was meant."""


@st.composite
def misvalued(draw: st.DrawFn, original: Any) -> Any:
    """A document in which a few values are others, and a few keys have other names."""
    document = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 2))):
        place, key = draw(st.sampled_from(list(_places(document))))
        if isinstance(place, dict) and draw(st.integers(0, 5)) == 0:
            place[draw(st.sampled_from(("", "x", "nodes", "\ud800")))] = place.pop(key)
        else:
            place[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Containers with each of their keys, at any depth."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
