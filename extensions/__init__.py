"""What installed packages add to what a plan can name: entry points (docs/own-system.md).

A package names its objects in its `pyproject.toml`, for example in a table
`[project.entry-points."kraftprobe.systems"]` by a line `mine = "my_package:KIND"`; each object
carries that very name. What comes with Kraftprobe is found without a look at packages, and an
object is imported when it is asked for.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class ExtensionError(ValueError):
    """What a package adds cannot be used; one line."""


_modules: dict[str, str] = {}
"""Top-level module of each object that a package added -> name and version of the package."""


def package_of(module: str) -> str | None:
    """Name the package that added objects of this module; None if it is none of those."""
    return _modules.get(module.partition(".")[0])


class Named(Protocol):
    """What a registry holds."""

    @property
    def name(self) -> str:
        """As a plan names it."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Name -> object: own ones, in their order, then those of packages by name.

    A look at a name that is not an own one, and each iteration, may raise ExtensionError.
    """

    def __init__(self, group: str, type_: type[T] | tuple[type[T], ...], own: Iterable[T]) -> None:
        """`group`: of the entry points; `type_`: what each object must be."""
        self._group = group
        self._type = type_
        self._own = {item.name: item for item in own}
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._own:
            return self._own[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._points[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._points

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._points

    def __len__(self) -> int:
        return len(self._own) + len(self._points)

    def package(self, name: str) -> str | None:
        """Name the package, with its version, that adds an object; None if it is an own one."""
        return None if name in self._own else _package(self._points[name])

    @cached_property
    def _points(self) -> Mapping[str, EntryPoint]:
        # It takes 20 ms, which whoever names nothing of a package need not spend.
        from importlib.metadata import entry_points  # noqa: PLC0415

        found: dict[str, EntryPoint] = {}
        for point in sorted(set(entry_points(group=self._group))):
            if point.name in self._own:
                raise ExtensionError(f"{self._describe(point)}: Kraftprobe has one of this name")
            if point.name in found:
                both = " and ".join(sorted({_package(found[point.name]), _package(point)}))
                raise ExtensionError(f"{self._describe(point)}: {both} both add it; remove one")
            found[point.name] = point
        return found

    def _load(self, point: EntryPoint) -> T:
        _modules.setdefault(point.module.partition(".")[0], _package(point))
        try:
            item = point.load()
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise ExtensionError(f"{self._describe(point)} cannot be loaded: {what}") from error
        if not isinstance(item, self._type):
            types = self._type if isinstance(self._type, tuple) else (self._type,)
            wanted = " or ".join(type_.__name__ for type_ in types)
            raise ExtensionError(f"{self._describe(point)} is {type(item).__name__}, not {wanted}")
        if item.name != point.name:
            raise ExtensionError(f"{self._describe(point)} calls itself {item.name!r}")
        if wrong := _misfit(item):
            raise ExtensionError(f"{self._describe(point)}: {wrong}")
        return item

    def _describe(self, point: EntryPoint) -> str:
        return f"entry point {point.name!r} of {self._group} (package {_package(point)})"


def _misfit(item: Any) -> str:
    """Say which field of a dataclass cannot be of its annotation; empty where none is known."""
    hints = typing.get_type_hints(type(item)) if is_dataclass(item) else {}
    for field in fields(item) if hints else ():
        value = getattr(item, field.name)
        if not _fits(value, hints[field.name]):
            return f"its {field.name} cannot be {ascii(value)[:80]}"
    return ""


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may be of an annotation, as far as that is plain. Text is no set of names."""
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (typing.Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(_fits(each, parts[1]) for each in value.values())
    if kind is typing.Literal:
        return value in parts
    if kind is Callable:
        return callable(value)
    if kind is frozenset:
        return isinstance(value, Collection) and not isinstance(value, str)
    return kind not in (bool, str, type(None)) or isinstance(value, kind)


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else f"{point.dist.name} {point.dist.version}"
