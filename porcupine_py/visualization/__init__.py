"""A history and how far orders of it get, as one HTML page that needs nothing else.

Each part of the history is a drawing: a row for each client, a bar from call to return for each
operation (a pending one runs to the end), and one linearization as a line through the moments at
which its operations take effect. At first it is the longest. Pointing at an operation shows the
longest that holds it, a click keeps that, and a table lists its steps with the state after each.
Operations that the model refuses as the next ones are marked.

The page loads nothing (its content security policy forbids it), and shows the longest
linearization without JavaScript, too. Texts of the user's functions are escaped, and cut beyond
`TEXT_MAX` characters.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, TextIO

from porcupine_py.linearization import LinearizationInfo
from porcupine_py.model import Model
from porcupine_py.visualization.drawing import draw_part
from porcupine_py.visualization.scale import Scale, escape
from porcupine_py.visualization.steps import TEXT_MAX, Steps

__all__ = ["TEXT_MAX", "visualize", "visualize_path"]


def visualize(model: Model[Any, Any, Any], info: LinearizationInfo, output: TextIO) -> None:
    """Write the page to an open text file. `info` is that of a verbose check with this model.

    Raises ModelError when the model refuses an order that it accepted when it was checked.
    """
    output.write(_page(model, info))


def visualize_path(model: Model[Any, Any, Any], info: LinearizationInfo, path: str | Path) -> None:
    """Write the page to a file in UTF-8; see `visualize`. Raises OSError as well."""
    page = _page(model, info)
    Path(path).write_text(page, encoding="utf-8")


def _page(model: Model[Any, Any, Any], info: LinearizationInfo) -> str:
    assets = resources.files(__name__)
    scale = Scale.of(info)
    steps = [Steps.of(part, model) for part in info.parts]
    drawings = [
        draw_part(number, part, steps[number], model, scale)
        for number, part in enumerate(info.parts)
    ]
    data = json.dumps([each.data(scale) for each in steps], separators=(",", ":"))
    for sign in "<>&":  # a text may not end the script that holds it
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    parts = {
        "@STYLE@": (assets / "page.css").read_text(encoding="utf-8"),
        "@SCRIPT@": (assets / "page.js").read_text(encoding="utf-8"),
        "@SUMMARY@": escape(_summary(info)),
        "@PARTS@": "\n".join(drawings),
        "@DATA@": data,
    }
    page = (assets / "page.html").read_text(encoding="utf-8")
    # Each placeholder is a line of its own, so that nothing in a text is taken for the next.
    return "".join(f"{parts.get(line, line)}\n" for line in page.splitlines())


def _summary(info: LinearizationInfo) -> str:
    count = sum(len(part.operations) for part in info.parts)
    operations = f"{count} operation{'s' * (count != 1)}"
    parts = f"{len(info.parts)} part{'s' * (len(info.parts) != 1)}"
    illegal = sum(part.legal is False for part in info.parts)
    if illegal and len(info.parts) > 1:
        return f"Illegal: {illegal} of {parts} cannot be linearized ({operations})"
    if illegal:
        return f"Illegal: not linearizable ({operations} in {parts})"
    if info.limit is not None:
        return f"Unknown: {info.limit} ({operations} in {parts})"
    return f"Ok: linearizable ({operations} in {parts})"
