"""What documents may hold: types that pydantic checks, and its errors as one plain line.

A document's type is an ordinary value class; its annotations say what each field may be, so that
values made in code pay nothing for it. `Schema` reads such a value from a table:

    SETTINGS = Schema(Settings, SettingsError)
    SETTINGS.read({"port": 70000})
    SettingsError: port must be a whole number from 1 to 65535, not 70000

A place in a document is written as in `hosts 2: port` or `workload.rate_per_s`; elements count from
1. Types are exact: true is no number, "3" is none either, and 3.0 is no whole number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from cluster.names import unknown

T = TypeVar("T")
Place = tuple[str | int, ...]
"""Keys, and positions in lists, on the way from a document to something in it."""

Text = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]
"""No path, and no argument of a process, holds a NUL."""
Flag = Annotated[bool, Field(strict=True)]

_SHOWN_MAX = 80


def rising(span: tuple[float, float]) -> tuple[float, float]:
    """Refuse a range that ends before it begins; for pydantic, which asks for ValueError."""
    if span[0] > span[1]:
        raise ValueError("the least is above the most")
    return span


class Schema(Generic[T]):
    """Reads values of a type from tables, or raises an error of the given class, one line."""

    def __init__(self, type_: type[T], error: type[Exception]) -> None:
        self._type = type_
        self._error = error

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self._type)

    @cached_property
    def _json_schema(self) -> dict[str, Any]:
        return self._adapter.json_schema()

    def read(self, document: object, *, place: Place = (), context: object = None) -> T:
        """Read a value; `place` is where the document stands in a larger one, for messages.

        `context` is what the type's own validators look at beside the document.
        """
        try:
            return self._adapter.validate_python(document, extra="forbid", context=context)
        except ValidationError as refusal:
            errors = refusal.errors(include_url=False)
            # A key with a typing error is also missing under its true name.
            first = min(errors, key=lambda error: error["type"] not in _UNKNOWN)
            raise self._error(self._line(first, place)) from None

    def _line(self, error: Mapping[str, Any], place: Place) -> str:
        kind, given, at = error["type"], error["input"], tuple(error["loc"])
        if at and at[-1] == "[key]":
            at = at[:-2]
        if kind in _UNKNOWN:
            known = self._at(at[:-1]).get("properties", {})
            return _join(place + at[:-1], unknown("key", str(at[-1])[:_SHOWN_MAX], known))
        if kind == "string_unicode":
            return _join(place + at, f"{render(given)} is not Unicode")
        if kind == "value_error":
            return _join(place + at, str(error["ctx"]["error"]))
        if kind == "missing" and isinstance(at[-1], str):
            return _join(place + at[:-1], f"{at[-1]} is missing")
        if kind == "missing":
            at = at[:-1]  # a list that is too short, not an element
        said = self._at(at)
        choices = [said["const"]] if "const" in said else said.get("enum")
        if choices and at:
            name = given[:_SHOWN_MAX] if isinstance(given, str) else render(given)
            line = unknown(str(at[-1]), name, map(str, choices))
            return _join(place + at[:-1], line)
        where = where_of(place + at) or "a document"
        return f"{where} must be {_describe_allowed(said)}, not {render(given)}"

    def _at(self, place: Place) -> dict[str, Any]:
        """Return the JSON schema of a place."""
        found = self._resolve(self._json_schema)
        for part in place:
            if isinstance(part, str):
                options = found.get("properties", {})
                following = options.get(part, found.get("additionalProperties"))
            else:
                fixed = found.get("prefixItems", [])
                following = fixed[part] if part < len(fixed) else found.get("items")
            found = self._resolve(following if isinstance(following, dict) else {})
        return found

    def _resolve(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Follow references, and leave aside that a value may be null."""
        found = dict(schema)
        while "$ref" in found or "anyOf" in found:
            if "$ref" in found:
                found = dict(self._json_schema["$defs"][found["$ref"].rpartition("/")[2]])
            else:
                found = next(option for option in found["anyOf"] if option.get("type") != "null")
        return found


_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def where_of(place: Place) -> str:
    """Write a place as people do: `hosts 2: port`."""
    text = ""
    for before, part in zip((None, *place), place, strict=False):
        if isinstance(part, int):
            text += f" {part + 1}"
        else:
            text += {str: ".", int: ": "}.get(type(before), "") + _shorter(part)
    return text.strip()


def render(value: object) -> str:
    """Return a value for a message, cut to a line."""
    try:
        text = ascii(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _shorter(value: object) -> str:
    """Return a name for a message, with nothing in it that is not printed."""
    text = str(value)[:_SHOWN_MAX]
    return text if text.isprintable() else ascii(text)[1:-1]


def _join(place: Place, line: str) -> str:
    """Put the place before what is wrong there, which may be a sentence about it: "must be ..."."""
    where = where_of(place)
    if not where:
        return line
    return f"{where} {line}" if line.startswith("must ") else f"{where}: {line}"


def _describe_allowed(schema: Mapping[str, Any]) -> str:
    """Say in words what a place may hold."""
    kind = schema.get("type")
    if "description" in schema and "properties" not in schema:  # else a class docstring
        return str(schema["description"])
    if kind in ("integer", "number"):
        number, form = ("a whole number", "") if kind == "integer" else ("a number", ".12g")
        low, high = schema.get("minimum"), schema.get("maximum")
        return number + ("" if None in (low, high) else f" from {low:{form}} to {high:{form}}")
    if kind == "string" and "maxLength" in schema:
        return f"a string of at most {schema['maxLength']} characters"
    if kind == "array":
        items = schema.get("items", {})
        return "a list of tables" if "$ref" in items or items.get("type") == "object" else "a list"
    return _WORDS.get(str(kind), "another value")


_WORDS = {"string": "a string", "boolean": "true or false", "object": "a table"}
