"""Packages stand above the house, use what it lists as public, and the house knows none of them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
HOUSE = (
    "extensions",
    "cluster",
    "checkers",
    "porcupine_py",
    "workloads",
    "nemeses",
    "results",
    "harness",
)
PUBLIC = {
    "checkers.registry",
    "cluster.systems.base",
    "cluster.systems.kafka.fetch",
    "cluster.systems.kafka.installation",
    "cluster.systems.kinds",
    "cluster.systems.plain",
    "cluster.values",
    "nemeses.base",
    "workloads.base",
    "workloads.driven",
    "workloads.local_address",
}
FILES = sorted(PACKAGES.glob("kraftprobe-*/kraftprobe_*/*.py"))


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_package_uses_public_modules_alone(file):
    for module, names in imported(file):
        if module.split(".")[0] in HOUSE:
            assert module in PUBLIC, f"{module} is none of the public modules"
            assert not [name for name in names if name.startswith("_")]


@pytest.mark.parametrize("package", sorted(PACKAGES.glob("kraftprobe-*")), ids=lambda p: p.name)
def test_a_package_is_small(package):
    code = [file for file in FILES if package in file.parents]
    assert sum(len(file.read_text().splitlines()) for file in code) < 300


def test_the_house_knows_no_package():
    files = (file for room in HOUSE for file in (ROOT / room).rglob("*.py"))
    assert [file for file in files if "kraftprobe_zookeeper" in file.read_text()] == []
