"""Imports only point down. The layers are those of docs/architecture.md; a few sideways imports are intended."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from railbed.launch.files.ship import modules_for_nodes
from tests.support.source import ROOT, SOURCE, SWITCHLAB, statements, trees

pytestmark = pytest.mark.xdist_group("source")
LAYERS = (
    {"cli", "web", "__main__"},
    {"api"},
    {"discover", "check", "configure", "bench", "train", "watch", "capture", "diagnose", "simulate", "report", "lab"},
    {"fleet", "probes", "launch", "collective", "rules"},
    {"transport", "store", "clusterfile", "catalog"},
    {"yamlfile", "present", "parsing"},
    {"model", "errors", "__init__"},
)
SIDEWAYS = {
    ("configure", "check"),
    ("fleet", "probes"),
    ("launch", "fleet"),
    ("launch", "probes"),
    ("model", "errors"),
    ("store", "clusterfile"),
}
SIDEWAYS |= {("__main__", "cli"), ("cli", "web"), ("collective", "launch")}
ALLOWED_TORCH = ("train/worker", "train/models", "bench/collective/worker", "collective")
RUNTIME_OF = {
    "torch": ALLOWED_TORCH,
    "asyncssh": ("transport/ssh",),
    "switchlab": ("lab/",),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "starlette": ("web/",),
    "uvicorn": ("web/",),
    "prometheus_client": ("web/",),
}


def depth(part: str) -> int:
    """Return the number of the layer that a part is in, counted from the top."""
    return next(index for index, layer in enumerate(LAYERS) if part in layer)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every module that is imported, also inside functions and under TYPE_CHECKING."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where an arrow points"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names) if module == "railbed" else (module,)


def violations(part: str, tree: ast.AST) -> list[str]:
    """Return the imports of a module, in a part of the package, that do not point down."""
    upward = []
    for name in imports(tree):
        target = name.split(".")[1] if name.startswith("railbed.") else None
        if target is None or target.startswith("__version__"):
            continue
        if target != part and depth(target) <= depth(part) and (part, target) not in SIDEWAYS:
            upward.append(f"{part} imports {name}")
    return upward


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_point_down() -> None:
    assert [line for path, tree in trees().items() for line in violations(part_of(path), tree)] == []


def test_heavy_parts_stay_where_they_belong() -> None:
    misplaced = []
    for path, tree in trees().items():
        place = str(path.relative_to(SOURCE))
        for name in imports(tree):
            homes = RUNTIME_OF.get(name.split(".")[0])
            if homes is not None and not place.startswith(homes):
                misplaced.append(f"{place} imports {name}")
    assert misplaced == []


@pytest.mark.parametrize(
    ("part", "planted"),
    [
        ("probes", "from railbed.rules.rule import Rule"),
        ("probes", "def late():\n    from railbed.check.book import CHECK_BOOK"),
        ("probes", "import railbed.check.book"),
        ("rules", "from railbed.check.run import check"),
        ("capture", "from railbed.check.run import check"),
        ("diagnose", "from railbed.check.run import check"),
        ("probes", "from railbed import check"),
        ("check", "from railbed.discover import run"),
        ("discover", "if True:\n    import railbed.check.run"),
        ("model", "from railbed.transport import base"),
        ("transport", "from railbed import store"),
        ("store", "def late():\n    import railbed.cli.main"),
    ],
)
def test_a_planted_import_is_caught(part: str, planted: str) -> None:
    assert violations(part, ast.parse(planted))


@pytest.mark.parametrize(
    ("part", "fine"),
    [
        ("configure", "from railbed.check.book import CHECK_BOOK"),
        ("capture", "from railbed.rules.rule import Rule"),
        ("check", "from railbed.probes import ip_link"),
        ("cli", "from railbed.check.run import check"),
        ("store", "from railbed import __version__"),
    ],
)
def test_a_downward_import_is_not(part: str, fine: str) -> None:
    assert violations(part, ast.parse(fine)) == []


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield what a module imports, with `from a import b` as `a.b`, also inside functions and under TYPE_CHECKING."""
    for child in statements(tree):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def cycle(modules: Mapping[str, ast.AST]) -> list[str]:
    """Return modules that need each other in a circle, from their syntax by name; empty if there are none.

    An import inside a function counts: it lets a circle load, but neither module can be understood without the other.
    """
    graph: dict[str, set[str]] = {}
    for module, tree in modules.items():
        names = {name if name in modules else name.rpartition(".")[0] for name in imported_names(tree)}
        graph[module] = names & modules.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", [SOURCE, SWITCHLAB])
def test_no_modules_import_each_other_in_a_circle(package: Path) -> None:
    assert cycle({module_name(path): tree for path, tree in trees(package).items()}) == []


@pytest.mark.parametrize(
    ("first", "second", "is_cycle"),
    [
        ("from p.b import x", "from p.a import y", True),
        ("from p import b", "import p.a", True),
        ("from p import b", "if True:\n    from p import a", True),
        ("from p import b", "def late():\n    from p import a", True),
        ("from p import b", "if TYPE_CHECKING:\n    from p.a import y", True),
        ("from p import b", "", False),
    ],
)
def test_a_planted_cycle_is_caught(first: str, second: str, is_cycle: bool) -> None:
    sources = {"p": "", "p.a": first, "p.b": second}
    assert bool(cycle({name: ast.parse(source) for name, source in sources.items()})) is is_cycle


RUNS_ON_NODES = (
    "launch/node/",
    "launch/rank.py",
    "collective/",
    "train/worker/",
    "train/state/verify.py",
    "bench/collective/worker/",
)


def test_nodes_get_everything_that_runs_there() -> None:
    modules = {module_name(path): path for path in trees()}
    pending = [module for module, path in modules.items() if str(path.relative_to(SOURCE)).startswith(RUNS_ON_NODES)]
    needed: set[str] = set()
    while pending:
        module = pending.pop()
        if module in modules and module not in needed:
            needed.add(module)
            tree = trees()[modules[module]]
            pending += [module.rpartition(".")[0], *imports(tree), *imported_names(tree)]
    sent = {SOURCE.parent / name for name in modules_for_nodes()}
    assert {module for module in needed if modules[module] not in sent} == set()


LONGEST_FILE, LONGEST_FUNCTION = 353, 50


def test_files_and_functions_stay_small() -> None:
    every = {**trees(), **trees(SWITCHLAB)}
    long_files = [str(path) for path in every if len(path.read_text().splitlines()) > LONGEST_FILE]
    long_functions = [
        f"{path}:{node.name}"
        for path, tree in every.items()
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno > LONGEST_FUNCTION
    ]
    assert (long_files, long_functions) == ([], [])


PLUG_INS = {"capture/rules", "check/rules", "diagnose/rules", "probes", "probes/nexus"}
"""Folders with one file for each of a kind."""
MOST_FILES = 18


def test_folders_stay_small() -> None:
    counts = {
        str(folder.relative_to(SOURCE)): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in {path.parent for path in trees()}
    }
    assert {name: count for name, count in counts.items() if count > MOST_FILES and name not in PLUG_INS} == {}


MANY = 2
"""Up to this number of modules and packages, a package shows by itself where to start."""


def first_file(docstring: str) -> str | None:
    """Return the file that a package's docstring says to read first."""
    match = re.search(r"(?:^|\s)Read `([\w/]+\.py)` first\.(?:\s|$)", docstring)
    return match[1] if match else None


@pytest.mark.parametrize("package", [SOURCE, SWITCHLAB])
def test_packages_name_the_file_to_read_first(package: Path) -> None:
    missing = []
    for path, tree in trees(package).items():
        if path.name != "__init__.py":
            continue
        contents = [
            child for child in path.parent.iterdir() if child.suffix == ".py" or (child / "__init__.py").exists()
        ]
        first = first_file(ast.get_docstring(tree) or "")
        if first is None and len(contents) - 1 > MANY:
            missing.append(f"{path}: name the file to read first: Read `file.py` first.")
        elif first is not None and not (path.parent / first).is_file():
            missing.append(f"{path}: {first} does not exist")
    assert missing == []


@pytest.mark.parametrize(
    ("docstring", "first"),
    [
        ("Rules. Read `mtu.py` first.", "mtu.py"),
        ("Rules.\n\nRead `loss/lost.py` first.\n\nMore.", "loss/lost.py"),
        ("Rules: open `mtu.py` first.", None),
    ],
)
def test_the_form_of_the_sentence(docstring: str, first: str | None) -> None:
    assert first_file(docstring) == first


def listed_names(docstring: str) -> Iterator[str]:
    """Yield the files that a package's docstring describes: in backticks, or at the beginning of a column."""
    yield from re.findall(r"`([\w/]+\.py|\w+/)`", docstring.replace("Read `", ""))
    for names in re.findall(r"(?:^|;  )((?:\w+, )*\w+)  +\S", docstring, re.MULTILINE):
        yield from names.split(", ")


@pytest.mark.parametrize("package", [SOURCE, SWITCHLAB])
def test_packages_describe_each_file_once(package: Path) -> None:
    wrong = []
    for path, tree in trees(package).items():
        if path.name != "__init__.py":
            continue
        counts = Counter(listed_names(ast.get_docstring(tree) or ""))
        for name, count in counts.items():
            if not (path.parent / name).exists() and not (path.parent / f"{name}.py").is_file():
                wrong.append(f"{path}: {name} does not exist")
            elif count > 1 and name.endswith(".py"):
                wrong.append(f"{path}: {name} is described {count} times: join the descriptions")
    assert wrong == []


@pytest.mark.parametrize(
    ("docstring", "names"),
    [
        ("Rules. Read `mtu.py` first.", []),
        ("Files: `a.py` writes, `below/b.py` reads, `static/` has the page.", ["a.py", "below/b.py", "static/"]),
        ("Parts.\n\nread    a file\nkeys, names  keys;  lock  waits", ["read", "keys", "names", "lock"]),
        ("Folders:\n\n    0001.rows    the rows", []),
    ],
)
def test_the_files_that_a_docstring_lists(docstring: str, names: list[str]) -> None:
    assert list(listed_names(docstring)) == names


def test_unit_tests_are_where_the_packages_are() -> None:
    packages = {path.parent.name for path in trees() if path.name == "__init__.py" and path.parent.parent == SOURCE}
    folders = {path.parent.name for path in (ROOT / "tests" / "unit").glob("*/test_*.py")}
    assert folders <= packages | {"support", "tools"}
    assert list((ROOT / "tests" / "unit").glob("test_*.py")) == []
