"""The histories in Clojure unit tests, by evaluating the few forms that build them.

No interpreter: known are `let` with destructuring, the helpers of Elle's tests (`op`, `pair`,
`fail`) and of Jepsen's (`invoke-op`, ...), and what makes a history of operations. A test that uses
anything else is counted as not evaluated, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkers.history import HistoryError
from checkers.history.edn import EdnSet, Keyword, Symbol, read_all

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|\\[()]|[()]|[@~`]', re.DOTALL)
_CALL = "#call"


class UnknownFormError(Exception):
    """A form that is not known here; the message names it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A call of a checker: what it is asked, and of which history."""

    checker: Any
    options: Mapping[str, Any]
    history: list[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What a test expects of a judgement."""

    place: str
    judgement: Judgement
    valid: Any
    """True, False, or the keyword `unknown`."""


def cases(path: Path) -> tuple[list[Case], int]:
    """Return the cases of a test file, and how many assertions of verdicts were not evaluated."""
    registers = "rw_register" in path.name
    text = path.read_text(encoding="utf-8")
    found: list[Case] = []
    unknown = 0
    for chunk in re.split(r"\n(?=\()", text):
        if "deftest" not in chunk:
            continue
        try:
            forms = list(read_all(_TOKEN.sub(_called, chunk)))
        except HistoryError:
            unknown += chunk.count("valid?")
            continue
        test = _Test(_name(chunk))
        for form in forms:
            test.run(form, {Symbol("registers"): registers})
        found += test.found
        unknown += test.unknown
    return found, unknown


def _name(chunk: str) -> str:
    names = re.search(r"deftest\s+(?:\^\S+\s+)?(\S+)", chunk)
    return names[1] if names else "?"


def _called(match: re.Match[str]) -> str:
    """Mark a list as a call: the reader of EDN makes lists of vectors and lists alike."""
    return {"(": f"{_CALL} [", ")": "]", "@": " ", "~": " ", "`": " "}.get(match[0], match[0])


class _Test:
    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[Case] = []
        self.unknown = 0

    def run(self, form: Any, known: dict[str, Any]) -> None:
        """Evaluate a form for the assertions in it."""
        call = _call(form)
        if call is None:
            return
        head, rest = call
        if head == "let":
            inner = dict(known)
            _bind_all(rest[0], inner)
            for body in rest[1:]:
                self.run(body, inner)
        elif head == "is":
            self._assert(rest[0], known)
        elif head in ("deftest", "testing", "do"):
            for body in rest:
                self.run(body, known)

    def _assert(self, form: Any, known: dict[str, Any]) -> None:
        try:
            expected = list(_expected(form, known))
        except UnknownFormError:
            self.unknown += "valid?" in str(form)
            return
        for judgement, valid in expected:
            place = f"{self.name} {len(self.found) + 1}"
            self.found.append(Case(place, judgement, valid))


def _expected(form: Any, known: dict[str, Any]) -> Iterator[tuple[Judgement, Any]]:
    call = _call(form)
    head, rest = call if call is not None else (None, [])
    if head == "=":
        values = [evaluate(item, known) for item in rest]
        verdicts = [v["valid?"] for v in values if isinstance(v, dict) and "valid?" in v]
        for value in values:
            if isinstance(value, Judgement) and verdicts:
                yield value, verdicts[0]
    elif head == "not":
        for judgement, valid in _expected(rest[0], known):
            yield judgement, not valid
    elif head == ":valid?" or (isinstance(head, Keyword) and head == "valid?"):
        value = evaluate(rest[0], known)
        if isinstance(value, Judgement):
            yield value, True


def _call(form: Any) -> tuple[Any, list[Any]] | None:
    if isinstance(form, dict) and list(form) == [_CALL] and form[_CALL]:
        head, *rest = form[_CALL]
        return head, rest
    return None


def evaluate(form: Any, known: Mapping[str, Any]) -> Any:
    """Return the value of a form. Raises UnknownFormError."""
    call = _call(form)
    if call is not None:
        return _apply(*call, known)
    if isinstance(form, Symbol):
        if form not in known or isinstance(known[form], UnknownFormError):
            raise UnknownFormError(form)
        return known[form]
    if isinstance(form, EdnSet) or not isinstance(form, list | dict):
        return form
    if isinstance(form, dict):
        return {key: _lenient(value, known) for key, value in form.items()}
    return [evaluate(item, known) for item in form]


def _lenient(form: Any, known: Mapping[str, Any]) -> Any:
    """Return a field of a map; what an expectation says beyond the verdict may be unknown."""
    try:
        return evaluate(form, known)
    except UnknownFormError as error:
        return error


def _apply(head: Any, rest: list[Any], known: Mapping[str, Any]) -> Any:
    if head == "check" and len(rest) >= 3:
        return Judgement(rest[0], {}, evaluate(rest[2], known))
    if head in ("c", "check") and len(rest) == 2:
        options, history = (evaluate(item, known) for item in rest)
        if isinstance(options, dict) and isinstance(history, list):
            return Judgement(None, options, history)
    if head == "->":
        return evaluate(rest[0], known)
    if head == "fn" and len(rest) == 2:
        return evaluate(rest[1], {**known, **{name: [] for name in rest[0]}})
    helper = known.get(head)
    if isinstance(helper, Judgement) and len(rest) == 1:
        return replace(helper, history=evaluate(rest[0], known))
    registers = bool(known[Symbol("registers")])
    if head == "mapcat":
        return [op for text in rest[1] for op in _pair(_op(registers, text))]
    if head == "op":
        return _op(registers, *(evaluate(item, known) for item in rest))
    name = str(head)
    if name not in _HELPERS:
        raise UnknownFormError(name)
    try:
        return _HELPERS[name](*(evaluate(item, known) for item in rest))
    except (TypeError, ValueError, LookupError) as error:
        raise UnknownFormError(f"{name} of something else") from error


def _op(registers: bool, *given: Any) -> dict[str, Any]:
    """Read Elle's string language: `ax1ry12` appends 1 to x and reads [1 2] of y."""
    text = given[-1]
    steps: list[list[Any]] = []
    for letter in text:
        if letter in "arw" and (not steps or len(steps[-1]) > 1):
            steps.append([Keyword({"a": "append"}.get(letter, letter))])
        elif len(steps[-1]) == 1:
            steps[-1] += [Keyword(letter), None]
        else:
            value = None if letter == "_" else int(letter)
            is_list = steps[-1][0] == "r" and not registers
            steps[-1][2] = [*(steps[-1][2] or []), value] if is_list else value
    process, kind = given[:2] if len(given) == 3 else (0, Keyword("ok"))
    return {"process": process, "type": kind, "f": Keyword("txn"), "value": steps}


def _pair(done: dict[str, Any]) -> list[dict[str, Any]]:
    asked = [[f, k, None if f == "r" else v] for f, k, v in done["value"]]
    return [{**done, "type": Keyword("invoke"), "value": asked}, done]


def _plain_op(kind: str) -> Any:
    def make(process: Any, f: Any, value: Any) -> dict[str, Any]:
        return {"process": process, "type": Keyword(kind), "f": f, "value": value}

    return make


_HELPERS: dict[str, Any] = {
    "pair": _pair,
    "fail": lambda op: {**op, "type": Keyword("fail")},
    **{f"{kind}-op": _plain_op(kind) for kind in ("invoke", "ok", "fail", "info")},
    **dict.fromkeys(("h/history", "history", "h/strip-indices"), lambda ops: ops),
    "vector": lambda *items: list(items),
    "list": lambda *items: list(items),
}


def _bind_all(bindings: list[Any], known: dict[str, Any]) -> None:
    for pattern, form in zip(bindings[::2], bindings[1::2], strict=True):
        try:
            value = evaluate(form, known)
        except UnknownFormError as error:
            value = error
        _bind(pattern, value, known)


def _bind(pattern: Any, value: Any, known: dict[str, Any]) -> None:
    if isinstance(pattern, Symbol):
        known[pattern] = value
        return
    if not isinstance(pattern, list):
        return
    names = list(pattern)
    if len(names) >= 2 and isinstance(names[-2], Keyword) and names[-2] == "as":
        known[names[-1]] = value
        names = names[:-2]
    items = value if isinstance(value, list) else [value] * len(names)
    for name, item in zip(names, items, strict=False):
        _bind(name, item, known)
