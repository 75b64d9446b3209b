"""Plug-ins are found by folder: one file, one plug-in, no list to edit."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from railbed.errors import UsageError

P = TypeVar("P")


def collect(package: ModuleType, kind: Callable[..., P], attribute: str) -> dict[str, P]:
    """Return the plug-ins of a package by name: the value of `attribute` in each module that has it.

    Modules without the attribute are helpers. A plug-in has the name of its file; in a subfolder of the package
    (`nexus/pfc.py`), the folder's name comes first (`nexus_pfc`), so names are unique.
    """
    # Not type[P]: a kind may be an abstract class, which mypy does not accept there.
    assert isinstance(kind, type)
    plugins: dict[str, P] = {}
    for module, name in _modules(package.__name__, tuple(package.__path__)):
        plugin: P | None = getattr(import_module(module), attribute, None)
        if plugin is None:
            continue
        if not isinstance(plugin, kind):
            raise TypeError(f"{module}.{attribute} is not a {kind.__name__}")
        if getattr(plugin, "name", None) != name:
            raise ValueError(f"{module}.{attribute} must be named {name!r}, like its file")
        if name in plugins:
            raise ValueError(f"{module} is a second {kind.__name__} named {name!r}")
        plugins[name] = plugin
    return dict(sorted(plugins.items()))


def choose(plugins: Mapping[str, P], name: str, *, kind: str, listing: str) -> P:
    """Return a plug-in by the name that a user typed; `listing` is the hint that shows the names."""
    if name not in plugins:
        similar = difflib.get_close_matches(name, plugins, n=1)
        raise UsageError(f"there is no {kind} {name!r}", hint=f"did you mean {similar[0]}?" if similar else listing)
    return plugins[name]


@cache
def _modules(package: str, path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the modules of a package and of the packages in it, each with the name that its plug-in must have."""
    walked = pkgutil.walk_packages(path, prefix=f"{package}.")
    modules = (module.name for module in walked if not module.ispkg)
    return tuple((module, module.removeprefix(f"{package}.").replace(".", "_")) for module in modules)
