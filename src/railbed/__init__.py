"""railbed: from one cluster file to a proven RDMA training cluster.

The verbs of the command line are functions here: `railbed.check()` checks the cluster of `cluster.yaml`. They yield
records, in a `for` loop or in an `async for` loop, and store them in a run; docs/api.md shows how they are used.

Everything is loaded when it is first used. `__init__.pyi` has the types; nodes get this file too, without the rest.
Read `cli/main.py` first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

HOMES = {
    "Change": "railbed.model.record",
    "ChecklistItem": "railbed.check.checklist",
    "Cluster": "railbed.model.cluster",
    "Event": "railbed.model.record",
    "EventStream": "railbed.api.stream",
    "Finding": "railbed.model.record",
    "Lab": "railbed.api.verbs.lab",
    "Measurement": "railbed.model.record",
    "RailbedError": "railbed.errors",
    "Reach": "railbed.api.reach",
    "Record": "railbed.model.record",
    "RecordStream": "railbed.api.stream",
    "Run": "railbed.api.stored",
    "Store": "railbed.store",
    "Verdict": "railbed.model.record",
    "bench": "railbed.api.verbs.bench",
    "capture": "railbed.api.verbs.capture",
    "check": "railbed.api.verbs.check",
    "checklist": "railbed.api.verbs.check",
    "compare": "railbed.api.verbs.report",
    "configure": "railbed.api.verbs.configure",
    "diagnose": "railbed.api.verbs.diagnose",
    "discover": "railbed.api.verbs.discover",
    "export": "railbed.api.verbs.export",
    "generate": "railbed.api.verbs.generate",
    "load_cluster": "railbed.api.clusters",
    "local": "railbed.api.clusters",
    "parse": "railbed.api.verbs.parse",
    "power_cycle": "railbed.api.verbs.configure",
    "read_capture": "railbed.api.verbs.capture",
    "read_run": "railbed.api.stored",
    "report": "railbed.api.verbs.report",
    "runs": "railbed.api.stored",
    "save_baseline": "railbed.api.verbs.bench",
    "to_json": "railbed.api.stored",
    "train": "railbed.api.train.verb",
    "undo": "railbed.api.verbs.configure",
    "watch": "railbed.api.verbs.watch",
}
"""The module of each public name."""
MODULES = {"errors": "railbed.errors", "events": "railbed.model.events"}
"""Public modules, by their names here."""
__all__ = [*HOMES, *MODULES]  # noqa: PLE0604  (names, from a dictionary)


class _VerbPackage(ModuleType):
    """A package that has the name of a verb, and can be called as its function: `railbed.check` is both."""

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  (those of the function)
        return self._function(*args, **options)

    @property
    def _function(self) -> Any:  # noqa: ANN401  (typed in the stub)
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(HOMES[name]), name)

    @property
    def __wrapped__(self) -> object:
        return self._function

    @property
    def __doc__(self) -> Any:  # noqa: ANN401  (a module's may be set)
        return self._function.__doc__


class _LazyPackage(ModuleType):
    """The package railbed, whose public names are loaded when they are first used."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (typed in the stub)
        if name in MODULES:
            return import_module(MODULES[name])
        if name not in HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(HOMES[name]), name)
        # To load the home of a verb loads the package of its name, if there is one, and thereby sets the attribute.
        return self.__dict__.setdefault(name, value)

    def __setattr__(self, name: str, value: object) -> None:
        if name in HOMES and isinstance(value, ModuleType):
            value.__class__ = _VerbPackage
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _LazyPackage
