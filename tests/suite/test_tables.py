"""Tables of the documents: each row has the cells of its head."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "checkers" / "README.md",
    ROOT / "packages" / "porcupine-py" / "README.md",
]


def cells(row: str) -> int:
    """Count those of a row; a bar within code or behind a backslash is no border."""
    return re.sub(r"`[^`]*`|\\\|", "", row).strip().strip("|").count("|") + 1


def broken_rows(text: str) -> list[str]:
    found: list[str] = []
    head = 0
    for line in text.splitlines():
        if not line.startswith("|"):
            head = 0
        elif head == 0:
            head = cells(line)
        elif cells(line) != head:
            found.append(line)
    return found


def test_each_row_has_the_cells_of_its_head():
    assert len(PAGES) > 15
    assert {page.name: rows for page in PAGES if (rows := broken_rows(page.read_text()))} == {}


def test_a_row_of_another_table_is_noticed():
    assert broken_rows("| model | assumes |\n|---|---|---|\n| a | b |\n") == ["|---|---|---|"]
    assert broken_rows("| a |\n|---|\n\n| a | `b|c` |\n|---|---|\n") == []
