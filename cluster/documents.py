"""Documents that people write and runs store: TOML or JSON, read with a bound on everything.

A file is JSON when its name ends in `.json`, TOML when it ends in `.toml`; of any other name, JSON
when it begins with a brace, which TOML cannot. What its keys mean is said by `cluster.schemas`,
which is apart from here since whoever lists documents by name needs no library for that.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from extensions.plain_files import no_repeats, read_plain

BYTES_MAX = 1_000_000
"""Of a document that a person writes."""


def read_document(
    path: Path, what: str, error: type[Exception], *, bytes_max: int = BYTES_MAX
) -> dict[str, Any]:
    """Read a table of keys and values. `what` names it in messages: "a plan".

    Raises `error` with one line that begins with the path, also for a document that says nothing:
    everything in it would be a default that nobody chose. JSON objects that repeat a key are
    refused, since readers disagree which of both counts, and so are numbers that are not finite.
    """
    try:
        data = read_plain(path, bytes_max=bytes_max)
        document = _parse(data.decode("utf-8-sig"), path.suffix)
    except OSError as failure:
        raise error(f"{path}: {failure.strerror}") from failure
    except UnicodeDecodeError as failure:
        raise error(f"{path}: cannot be read as {what}: it is not UTF-8 text") from failure
    except RecursionError:
        raise error(f"{path}: cannot be read as {what}: it is nested too deeply") from None
    except ValueError as failure:
        if isinstance(failure, error):
            raise
        why = " ".join(str(failure).split())[:200] or type(failure).__name__
        raise error(f"{path}: cannot be read as {what}: {why}") from failure
    if not isinstance(document, dict):
        raise error(f"{path}: {what} is a table of keys and values")
    if not document:
        raise error(f"{path}: is empty: {what} is a table of keys and values")
    return document


_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""", re.ASCII)
"""A dotted key of so many parts, for which tomllib needs time and memory by their square."""


def _parse(text: str, suffix: str) -> Any:
    if suffix == ".json" or (suffix != ".toml" and text.lstrip().startswith("{")):
        return parse_json(text)
    if _DEEP.search(text):
        raise RecursionError
    return tomllib.loads(text)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError, also for repeated keys, and RecursionError."""
    return json.loads(
        text, object_pairs_hook=no_repeats, parse_constant=_no_constant, parse_float=_finite
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not finite")
    return number
