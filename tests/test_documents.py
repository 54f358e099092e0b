"""Documents: bounded, exact, and wrong ones refused in a line that names place, value and remedy."""

from dataclasses import field
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from cluster.documents import read_document
from cluster.schemas import Flag, Schema, Text
from cluster.values import valueclass


class WrongError(ValueError):
    pass


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' is repeated"),
        ("a.toml", "a = 1\na = 2", "cannot be read as a plan: .*a"),
        ("a.json", '{"a": NaN}', "NaN is no JSON value"),
        ("a.json", '{"a": 1e999}', "1e999 is not finite"),
        ("a.json", '{"a": ' + "9" * 5000 + "}", "cannot be read as a plan"),
        ("a.toml", "a = " + "9" * 5000, "cannot be read as a plan"),
        ("a.json", "[" * 100_000, "cannot be read as a plan"),
        ("a.json", "[1]", "a plan is a table of keys and values"),
        ("a.toml", "\udcff", "cannot be read as a plan"),
        ("a.toml", "#" * 1_000_001, "more than the 1,000,000 bytes"),
        ("a.toml", "{}", "cannot be read as a plan"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(WrongError, match=message) as refused:
        read_document(path, "a plan", WrongError)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_file_without_a_known_ending_is_what_it_looks_like(tmp_path):
    for content in ("a = 1", '\n {"a": 1}'):
        (tmp_path / "plan").write_text(content)
        assert read_document(tmp_path / "plan", "a plan", WrongError) == {"a": 1}


def rising(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError("the least is above the most")
    return pair


Small = Annotated[int, Field(strict=True, ge=1, le=9)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


@valueclass
class Part:
    size: Small
    on: Flag = False
    span: Annotated[tuple[Small, Small], AfterValidator(rising), Field(description="[a, b]")] = (
        1,
        2,
    )


@valueclass
class Whole:
    name: Text = "x"
    kind: Literal["left", "right"] = "left"
    share: Share | None = None
    part: Part = field(default_factory=lambda: Part(1))
    parts: tuple[Part, ...] = ()
    shares: dict[str, Share] = field(default_factory=dict)
    anything: Any = None


WHOLE = Schema(Whole, WrongError)


def test_what_is_right_becomes_a_value():
    document = {"share": 1, "parts": [{"size": 3, "span": [4, 5]}], "anything": [None]}
    assert WHOLE.read(document) == Whole(share=1.0, parts=(Part(3, span=(4, 5)),), anything=[None])


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([1], "a document must be a table, not [1]"),
        ({"nam": 1, "share": 7}, "unknown key 'nam'; did you mean 'name'? (known: anything, "),
        ({"name": 3}, "name must be a string of at most 10000 characters, not 3"),
        ({"name": "x" * 10_001}, "name must be a string of at most 10000 characters, not 'xxx"),
        ({"kind": "rigt"}, "unknown kind 'rigt'; did you mean 'right'? (known: left, right)"),
        ({"kind": ["left"]}, "unknown kind \"['left']\""),
        ({"share": True}, "share must be a number from 0 to 1, not True"),
        ({"share": "1"}, "share must be a number from 0 to 1, not '1'"),
        ({"share": float("nan")}, "share must be a number from 0 to 1, not nan"),
        ({"share": float("inf")}, "share must be a number from 0 to 1, not inf"),
        ({"share": 10**400}, "share must be a number from 0 to 1, not 1000000"),
        ({"share": 10**5000}, "share must be a number from 0 to 1, not a number of thousands"),
        ({"part": 3}, "part must be a table, not 3"),
        ({"part": {}}, "part: size is missing"),
        ({"part": {"siz": 3}}, "part: unknown key 'siz'; did you mean 'size'?"),
        ({"part": {"size": 3.0}}, "part.size must be a whole number from 1 to 9, not 3.0"),
        ({"part": {"size": True}}, "part.size must be a whole number from 1 to 9, not True"),
        ({"part": {"size": 1, "on": 1}}, "part.on must be true or false, not 1"),
        ({"parts": {}}, "parts must be a list of tables, not {}"),
        ({"parts": "abc"}, "parts must be a list of tables, not 'abc'"),
        ({"parts": [{"size": 1}, 3]}, "parts 2 must be a table, not 3"),
        ({"parts": [{"size": 0}]}, "parts 1: size must be a whole number from 1 to 9, not 0"),
        ({"parts": [{"size": 1, "s": 2}]}, "parts 1: unknown key 's'"),
        ({"parts": [{"size": 1, "span": [3]}]}, "parts 1: span must be [a, b], not [3]"),
        ({"parts": [{"size": 1, "span": [1, 2, 3]}]}, "span must be [a, b], not [1, 2, 3]"),
        ({"parts": [{"size": 1, "span": [3, 1]}]}, "parts 1: span: the least is above the most"),
        ({"shares": {"a": 2}}, "shares.a must be a number from 0 to 1, not 2"),
        ({"\ud800": 2}, "'\\ud800' is not Unicode"),
        ({"a\nb": 2}, "unknown key 'a\\nb'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_a_line_with_the_place(document, line):
    with pytest.raises(WrongError) as refused:
        WHOLE.read(document)
    assert str(refused.value).startswith(line) or line in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_part_of_a_larger_document_says_where_it_stands():
    with pytest.raises(WrongError, match=r"^strands 2: steps 1: unknown key 'nam'"):
        WHOLE.read({"nam": 1}, place=("strands", 1, "steps", 0))
