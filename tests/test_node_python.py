"""What runs on nodes runs with Python 3.10, which is the Python of Ubuntu 22.04; railbed itself needs 3.11."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed.check.shared.environment import OLDEST
from railbed.fleet import Fleet
from railbed.launch.files.client import RELAY
from railbed.launch.files.ship import ARCHIVE, archive, module_command, modules_for_nodes, own_code, ship
from railbed.launch.messages import decode
from railbed.launch.node import agent
from railbed.model.cluster import Cluster, Node
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support.source import SOURCE, trees

pytestmark = pytest.mark.xdist_group("source")
PROGRAMS = (
    "bench.collective.worker",
    "collective.timing",
    "launch.node",
    "launch.rank",
    "train.data.chatprocess",
    "train.state.verify",
    "train.worker",
)
"""Modules that nodes start, and packages of them."""
NEWER = {
    "asyncio": {"Barrier", "Runner", "TaskGroup", "Timeout", "timeout", "timeout_at"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"EnumType", "ReprEnum", "StrEnum", "member", "nonmember", "property", "verify"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "fma", "sumprod"},
    "operator": {"call"},
    "re": {"NOFLAG"},
    "sys": {"activate_stack_trampoline", "exception", "monitoring"},
    "tomllib": {"load", "loads"},
    "typing": {
        *("LiteralString", "Never", "NotRequired", "Required", "Self", "TypeVarTuple", "Unpack", "assert_never"),
        *("assert_type", "clear_overloads", "dataclass_transform", "get_overloads", "override", "reveal_type"),
    },
}
"""What the standard library has since 3.11 or later, as far as anybody would use it here."""
NEWER_BUILTINS = {"BaseExceptionGroup", "ExceptionGroup", "PythonFinalizationError"}
NEWER_METHODS = {"add_note", "cancelling", "start_tls", "uncancel"}
STUBS = """\
import abc, importlib.abc, importlib.machinery, sys, types


class Anything(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Something

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Something(metaclass=Anything):
    def __init__(self, *_, **__):
        pass

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments else self

    def __class_getitem__(cls, _):
        return cls


class Library(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Something


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("jinja2", "numpy", "tokenizers", "torch"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Library(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())
"""


def is_of(name: str, programs: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"railbed.{program}.") for program in programs)


def children_at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield everything in a module but what only a type checker reads."""
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from children_at_run_time(child)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every module that may be imported at run time."""
    for node in children_at_run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_on_nodes() -> dict[str, Path]:
    """Return what a program on a node may import of railbed, by name."""
    sent = {name[:-3].replace("/", ".").removesuffix(".__init__"): path for name, path in modules_for_nodes().items()}
    pending = [name for name in sent if is_of(name, PROGRAMS)]
    needed = {f"railbed.{name}": SOURCE.joinpath(*name.split(".")).with_suffix(".py") for name in RELAY}
    while pending:
        name = pending.pop()
        if name in sent and name not in needed:
            needed[name] = sent[name]
            pending += [name.rpartition(".")[0], *imports(trees()[sent[name]])]
    return needed


def newer(tree: ast.Module) -> list[str]:
    """Return what in a module Python 3.10 does not have, as `line: what`."""
    names = [(node, name) for node in children_at_run_time(tree) for name in newer_names(node)]
    catches_all = "asyncio.TimeoutError" in ast.unparse(tree) or "asyncio.wait_for(" not in ast.unparse(tree)
    return [f"{getattr(node, 'lineno', 0)}: {name}" for node, name in names] + ([] if catches_all else ["wait_for"])


def newer_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module)) if module in NEWER:
            yield from (f"{module}.{alias.name}" for alias in node.names if alias.name in NEWER[module])
        case ast.Import():
            yield from (alias.name for alias in node.names if alias.name == "tomllib")
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in NEWER.get(module, ()):
            yield f"{module}.{name}"
        case ast.Attribute(attr=name) if name in NEWER_METHODS:
            yield name
        case ast.Name(id=name) if name in NEWER_BUILTINS:
            yield name
        case ast.TryStar():
            yield "except*"


def test_nodes_need_no_newer_python() -> None:
    on_nodes = modules_on_nodes()
    assert len(on_nodes) > 100
    assert agent.__name__ in on_nodes
    assert ship.__module__ not in on_nodes, "railbed itself may use a newer Python"
    for path in on_nodes.values():
        ast.parse(path.read_text(), feature_version=OLDEST)
    assert {name: names for name, path in on_nodes.items() if (names := newer(trees()[path]))} == {}


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ("from typing import Self", "1: typing.Self"),
        ("import tomllib", "1: tomllib"),
        ("async def f():\n    async with asyncio.timeout(1):\n        pass", "2: asyncio.timeout"),
        ("try:\n    pass\nexcept ExceptionGroup:\n    pass", "3: ExceptionGroup"),
        ("hashlib.file_digest(file, 'sha256')", "1: hashlib.file_digest"),
        ("error.add_note('x')", "1: add_note"),
        ("try:\n    await asyncio.wait_for(x, 1)\nexcept TimeoutError:\n    pass", "wait_for"),
    ],
)
def test_a_planted_name_is_caught(planted: str, message: str) -> None:
    assert newer(ast.parse(planted)) == [message]


def test_what_only_a_type_checker_reads_may_be_newer() -> None:
    assert newer(ast.parse("if TYPE_CHECKING:\n    from typing import Self")) == []


def oldest_python() -> str:
    """Return a Python of the oldest version, also one that pyenv does not put into PATH; without one, skip the test."""
    name = ".".join(map(str, OLDEST))
    folders = [path for path in Path.home().glob(f".pyenv/versions/{name}.*/bin") if path.is_dir()]
    path = shutil.which(f"python{name}", path=":".join([*map(str, folders), *os.get_exec_path()]))
    # A link of pyenv may be there without the version.
    if path is None or subprocess.run([path, "-V"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Python 3.10")
    return path


def test_the_oldest_python_imports_everything_that_nodes_run(tmp_path: Path) -> None:
    """With stand-ins for the packages of others, of which there may be no build here."""
    (tmp_path / "railbed.zip").write_bytes(archive(modules_for_nodes()))
    (tmp_path / "stubs.py").write_text(STUBS)
    program = f"import stubs\nfor name in {sorted(modules_on_nodes())!r}: __import__(name)"
    done = subprocess.run(
        [oldest_python(), "-B", "-c", program],
        env={"PYTHONPATH": f"{tmp_path}/railbed.zip:{tmp_path}"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_oldest_python_gets_files_and_starts_an_agent(tmp_path: Path) -> None:
    """It ignores PYTHONSAFEPATH, and yet takes no module from the folder in which it is started."""
    python, code, work, planted = oldest_python(), own_code(), tmp_path / "work", tmp_path / "planted"
    work.mkdir(mode=0o700)
    planted.mkdir()
    for name in ("railbed", "runpy", "json"):
        (planted / f"{name}.py").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})")
    cluster = Cluster(name="here", nodes={"here": Node(host="local", python=python)})
    async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=20.0) as fleet:
        shipped = await ship(fleet, {"here": (python,)}, str(work), [code])
    assert shipped.failed == {}
    archived = f"{shipped.bases['here']}/{code.name}/{ARCHIVE}"
    command = module_command([python], archived, agent.__name__, [str(tmp_path / "runs" / "job" / "here")])
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=planted, input=b"", capture_output=True, check=False, timeout=60
    )
    hello = decode(done.stdout.splitlines()[0])
    assert hello, done
    assert (hello["kind"], hello["python"].startswith("3.10."), done.stderr) == ("hello", True, b"")
    assert not (tmp_path / "ran").exists()


def test_railbed_itself_needs_a_newer_one() -> None:
    assert sys.version_info >= (3, 11) > OLDEST
