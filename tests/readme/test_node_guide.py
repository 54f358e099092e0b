"""docs/node.md, from its files to its last command, in one shell as it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.client.nodes import free_ports

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/node.md").read_text()
FILES = dict(
    re.findall(
        r"^`([\w-]+\.properties)`:\n\n```properties\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL
    )
)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SNIPPETS = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [text for language, text in BLOCKS if not language]
TIMEOUT_S = 1200


def on_free_ports(text: str, ports: dict[str, int]) -> str:
    return re.sub(r"127\.0\.0\.1:(\d+)", lambda m: f"127.0.0.1:{ports[m[1]]}", text)


def test_the_guide_shows_six_nodes_and_what_to_do_with_them():
    names = [f"controller-{i}.properties" for i in (1, 2, 3)]
    names += [f"broker-{i}.properties" for i in (4, 5, 6)]
    assert list(FILES) == names
    assert len(SNIPPETS) == 1
    assert len(COMMANDS) == 8


@pytest.mark.cluster
def test_the_guide_does_what_it_says(tmp_path: Path):
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    numbers = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", GUIDE)))
    ports = dict(zip(numbers, free_ports(len(numbers)), strict=True))
    for name, text in FILES.items():
        (tmp_path / name).write_text(on_free_ports(text, ports))
    (tmp_path / "guide.py").write_text(on_free_ports(SNIPPETS[0], ports))
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    script = "set -e; trap 'kill -9 $(cat *.pid)' ERR\n" + on_free_ports("\n".join(COMMANDS), ports)
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = shell.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        output, errors = shell.communicate()
        pytest.fail(f"it hangs after:\n{output}\n{errors}")
    assert shell.returncode == 0, output + errors
    assert "Traceback" not in errors
    for expected in (
        "voters [1, 2, 3]",
        "observers [4, 5, 6]",
        'topic "orders" with 3 partitions',
        "isrs: 4,5\n",
        '"RegisterBrokerRecord"',
    ):
        assert expected in re.sub(r"isrs: 5,4", "isrs: 4,5", output), (
            f"{expected}: {output}{errors}"
        )
    assert not any(_alive(pid) for pid in tmp_path.glob("*.pid")), "all have ended"


def _alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
