"""`benchmarks/RESULTS.md`: one page of verdicts and figures, in sections that programs write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.page_sections import read_section, write_section

PAGE: Final = Path(__file__).with_name("RESULTS.md")


def section(name: str) -> str:
    """Return what the page holds between the marks of a section."""
    return read_section(PAGE, name)


def write(name: str, text: str) -> None:
    """Put `text` in the place of what the section holds."""
    write_section(PAGE, name, [text.strip()])
