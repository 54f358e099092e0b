"""`benchmarks/RESULTS.md`: one page of verdicts and figures, in sections that programs write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).with_name("RESULTS.md")


def section(name: str) -> str:
    """Return what the page holds between the marks of a section."""
    return _split(name)[1]


def write(name: str, text: str) -> None:
    """Put `text` in the place of what the section holds."""
    before, _, after = _split(name)
    PAGE.write_text(f"{before}\n{text.strip()}\n{after}")


def _split(name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    page = PAGE.read_text()
    assert page.count(begin) == page.count(end) == 1, f"{PAGE} has no section {name}"
    before, _, rest = page.partition(begin)
    text, _, after = rest.partition(end)
    return before + begin, text, "\n" + end + after
