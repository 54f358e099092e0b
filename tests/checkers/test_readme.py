"""The examples of the package's README do what it says."""

import re
from pathlib import Path

from checkers import Status
from tests.checkers.histories import op

ROOT = Path(__file__).parents[2]
README = (ROOT / "checkers" / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_three_lines_judge_a_history_file(tmp_path, monkeypatch, capsys):
    example = ROOT / "tests" / "data" / "histories" / "example.edn"
    (tmp_path / "history.edn").write_bytes(example.read_bytes())
    monkeypatch.chdir(tmp_path)
    lines = [line for line in BLOCKS[0].splitlines() if line]
    assert len(lines) == 3
    exec(BLOCKS[0], {})
    assert capsys.readouterr().out.startswith("PASS linearizable: ")


def test_the_other_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    journal = ""
    for i, (kind, f, value) in enumerate([("invoke", "write", 1), ("ok", "write", 1)]):
        journal += (
            f'{{"index":{i},"time_ns":{i},"process":0,"type":"{kind}","f":"{f}","value":{value}}}\n'
        )
    (tmp_path / "history.jsonl").write_text(journal)
    examples = {}
    for block in BLOCKS[1:]:
        names = {"operations": []}
        exec(block, names)
        examples |= names
    assert len(BLOCKS) == 4
    wrong = [op(0, "increment", (0, 1)), op(1, "read", (2, 3), output=0)]
    assert examples["check"](wrong, examples["Counter"]()).status is Status.FAIL
    assert "None PASS zones" in capsys.readouterr().out
