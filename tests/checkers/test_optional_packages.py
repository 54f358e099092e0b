"""Without pyarrow and compiled searches `checkers` judges files all the same, and says so."""

import json
import os
import subprocess
import sys

import pytest

EVENTS = [
    ("invoke", 0, "write", 1),
    ("ok", 0, "write", 1),
    ("invoke", 1, "read", None),
    ("ok", 1, "read", None),
]
PROGRAM = """
import sys
sys.modules["pyarrow"] = None
from checkers import HistoryError, check
try:
    result = check(sys.argv[1], sys.argv[2])
    print(result.status, result.summary)
except HistoryError as error:
    print(error)
"""


def judged_without(path, model):
    command = [sys.executable, "-c", PROGRAM, str(path), model]
    off = os.environ | {"KRAFTPROBE_COMPILED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=off)
    return done.stdout


@pytest.fixture
def journal(tmp_path):
    lines = [
        {"index": i, "time_ns": i, "process": process, "type": kind, "f": f, "value": value}
        for i, (kind, process, f, value) in enumerate(EVENTS)
    ]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path / "history.jsonl"


@pytest.mark.slow
def test_a_file_is_read_without_pyarrow(journal):
    assert judged_without(journal, "register").startswith("FAIL not linearizable: ")


@pytest.mark.slow
def test_a_search_without_the_compiled_library_says_so(tmp_path):
    lines = []
    for i in range(6):
        value = i % 2
        for kind in ("invoke", "ok"):
            event = {"process": 0, "type": kind, "f": "write", "value": value}
            lines.append({"index": len(lines), "time_ns": len(lines), **event})
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    judged = judged_without(tmp_path / "history.jsonl", "register")
    assert judged.startswith("PASS linearizable: ")
    assert judged.endswith(
        "; searched in plain Python: the compiled searches are switched off by KRAFTPROBE_COMPILED=0\n"
    )
