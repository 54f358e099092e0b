"""Sections of pages that a command writes: the lines between two marks.

A section NAME stands between `<!-- begin NAME -->` and `<!-- end NAME -->`, each on a line.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from results.store.files import write_atomically


def read_section(page: Path, name: str) -> str:
    """Return a section of a page. Raises UsageError where the page has none, OSError."""
    return _split(page, name)[1]


def write_section(page: Path, name: str, lines: list[str]) -> None:
    """Replace a section of a page. Raises UsageError where the page has none, OSError."""
    before, _, after = _split(page, name)
    write_atomically(page, "\n".join([before, *lines, "", after]).encode())


def _split(page: Path, name: str) -> tuple[str, str, str]:
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise UsageError(f"{page}: has no section between {begin.strip()} and {end}")
    before, _, rest = text.partition(begin)
    section, _, after = rest.partition(end)
    return before + begin, section, end + after
