"""What the node's program needs beside itself: third-party distributions, found by reading it.

The node's sources are read for what they import, so that no list has to be kept; then follow the
requirements that the installed distributions declare.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import cluster

PACKAGE = Path(cluster.__file__).resolve().parent
"""The folder of the package `cluster`, which is mounted into containers."""
_NOT_NODE = "backends"  # where nodes run is the harness's business
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@functools.cache
def requirements() -> Mapping[str, metadata.Distribution]:
    """Find every distribution that a node needs, by normalised name, sorted."""
    providers = metadata.packages_distributions()
    due = [name for top in sorted(_imports()) for name in providers.get(top, ())]
    return with_requirements(due)


def with_requirements(names: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Find the installed distributions of these names and all that they require, sorted."""
    due = list(names)
    found: dict[str, metadata.Distribution] = {}
    while due:
        name = re.sub(r"[-_.]+", "-", due.pop()).lower()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # declared for another platform or as an extra
        found[name] = distribution
        due += _declared_modules(distribution)
    return dict(sorted(found.items()))


def _imports() -> set[str]:
    """Name the top-level modules that the node's program imports and the library does not have."""
    tops: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] == _NOT_NODE:
            continue
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.Import):
                tops.update(alias.name.partition(".")[0] for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                tops.add(statement.module.partition(".")[0])
    return tops - set(sys.stdlib_module_names) - {"cluster", "extensions"}


def _declared_modules(distribution: metadata.Distribution) -> Iterator[str]:
    for line in distribution.requires or ():
        if "extra" in line.partition(";")[2]:
            continue
        name = _NAME.match(line)
        assert name is not None, f"a requirement begins with a name: {line}"
        yield name.group()
