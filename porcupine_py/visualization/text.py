"""Texts of users' functions on a page: escaped, and of bounded length."""

from __future__ import annotations

import html

TEXT_MAX = 300
"""Characters of a text that the page shows."""


def escape(text: str) -> str:
    """Return a text for HTML or SVG, in an element or a quoted attribute.

    Characters that no XML document may hold, and halves of surrogate pairs, which no encoding of
    Unicode can write, are shown as U+FFFD.
    """
    return html.escape(shorten(text))


def shorten(text: str) -> str:
    """Return at most TEXT_MAX characters, an ellipsis for the rest, that can be written."""
    if len(text) > TEXT_MAX:
        text = text[: TEXT_MAX - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return "".join(c if _writable(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _writable(c: str) -> bool:
    return c in "\t\n" or (c >= " " and not "\x7f" <= c <= "\x9f" and not "\ud800" <= c <= "\udfff")
