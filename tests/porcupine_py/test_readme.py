"""The examples of the distribution's README do what it says."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "packages" / "porcupine-py" / "README.md"
SECTIONS = dict(
    re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", README.read_text(), re.DOTALL | re.MULTILINE)
)


def run(section, capsys):
    (block,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    names = {}
    exec(block, names)
    return names, capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_register(capsys):
    assert run("A register", capsys)[1] == ["True", "False"]


def test_a_key_value_store_key_by_key(capsys, tmp_path):
    _, printed = run("A key-value store, key by key", capsys)
    assert printed == ["Illegal", "[[3], [1]]"]
    assert "not linearizable" in (tmp_path / "store.html").read_text()


def test_a_nondeterministic_model_and_clients_without_an_answer(capsys):
    section = "A nondeterministic model, and clients without an answer"
    names, printed = run(section, capsys)
    assert printed == ["Illegal"]
    assert names["CheckResult"].ILLEGAL == "Illegal"


def test_ready_models(capsys):
    (line,) = run("Ready models, near-linear rules, compiled searches", capsys)[1]
    assert line.startswith("zones FAIL stale read: ")


def test_every_example_is_run():
    with_code = {name for name, text in SECTIONS.items() if "```python" in text}
    assert len(with_code) == 4
