"""The folder in which somebody calls railbed may belong to others: no code and no settings come from there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import railbed as package
from railbed.api.site import built_in_local
from railbed.check.book import CHECK_BOOK
from railbed.launch.job import rank_starts
from railbed.launch.messages import SAFE_PATH
from railbed.launch.node.spawn import Spawner
from railbed.model.cluster import Cluster, Node
from railbed.model.fix import RunStep
from railbed.probes.outputs import all_probes
from railbed.rules.engine import judge
from railbed.train.capacity.fit import missing_libraries_command
from tests.support.cli import RAILBED, railbed
from tests.support.rulecase import CASES, load_yaml, site_of
from tests.support.shellwords import Shell

PLANTED = ("base64", "importlib", "json", "os", "re", "socket", "subprocess", "torch", "types", "venv", "pip")
SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that leave a file behind when they are imported, as another user could put them there."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + chr(10))\n")
    (folder / "torch").mkdir()
    (folder / "torch" / "version.py").write_text("__version__ = '6.6.6'\n")
    return folder


@pytest.mark.parametrize("path", [None, ""], ids=["no PYTHONPATH", "an empty one"])
def test_check_runs_nothing_from_the_current_folder(planted: Path, path: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if path is not None:
        environment["PYTHONPATH"] = path
    words = [RAILBED, "check", "torch_equal", "rendezvous_reachable", "tuning_libraries", "--json"]
    done = subprocess.run(words, cwd=planted, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert not (planted.parent / "ran").exists(), (planted.parent / "ran").read_text()
    assert "torch_equal" in done.stdout, done.stderr
    assert "6.6.6" not in done.stdout


def test_the_training_python_is_isolated_from_the_folder_and_a_login_with_an_empty_pythonpath(planted: Path) -> None:
    cluster = built_in_local()
    (node,) = cluster.nodes
    for script in (
        all_probes()["torch"].command_for(cluster, node),
        missing_libraries_command(cluster.interpreter_of(node), ["torch", "peft"]),
    ):
        environment = {**os.environ, "PYTHONPATH": ":/nowhere"}
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=planted,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        assert not (planted.parent / "ran").exists(), (planted.parent / "ran").read_text()
        assert "6.6.6" not in done.stdout


def is_isolated(words: list[str]) -> bool:
    """Whether each Python among the words that gets a program or a module does without the current folder."""
    for at, word in enumerate(words):
        options = words[at + 1 : at + 5]
        if Path(word).name.startswith("python") and {"-c", "-m"} & set(options):
            return "-I" in options or "-P" in options or "PYTHONSAFEPATH=1" in words[:at]
    return True


def test_every_python_on_a_node_is_isolated(tmp_path: Path) -> None:
    """Probes and fixes, with stubs in place of all programs."""
    shell = Shell(tmp_path / "stubs")
    cluster = Cluster(name="c", nodes={"a": Node(host="a")})
    scripts = [probe.command_for(cluster, "a") for probe in all_probes().values() if probe.runs_on == "node"]
    for path in [path for path in sorted(CASES.glob("*/*.yaml")) if "python" in path.read_text()]:
        for finding in judge(CHECK_BOOK, site_of(load_yaml(path)), [CHECK_BOOK.rules[path.parent.name]]):
            steps = (*finding.fix.apply, *finding.fix.undo) if finding.fix else ()
            scripts += [step.command for step in steps if isinstance(step, RunStep) and "python" in step.command]
    calls = [words for calls in shell.calls_of([script for script in scripts if "python" in script]) for words in calls]
    pythons = [words for words in calls if any("python" in word for word in words)]
    assert len(pythons) > 3
    assert [words for words in pythons if not is_isolated(words)] == []


def started_pythons() -> Iterator[tuple[Path, list[str]]]:
    """Yield the lists of words in our code that give a program or a module to a Python."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple):
                words = [ast.unparse(item) for item in node.elts]
                texts = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
                starts = any("executable" in word or "interpreter" in word or "python" in word for word in words)
                if starts and {"-c", "-m"} & set(texts):
                    yield path, words


def test_every_python_that_railbed_starts_is_isolated() -> None:
    starts = list(started_pythons())
    assert len(starts) >= 6
    for path, words in starts:
        is_safe = {"'-I'", "'-P'"} & set(words) or any(word in str(words) for word in ("python_words(", "chroot"))
        is_safe = is_safe or "SAFE_PATH" in path.read_text()
        assert is_safe, f"{path}: {words}"
    assert SAFE_PATH["PYTHONSAFEPATH"] == "1"
    assert {rank_starts.__module__, Spawner.__module__} <= {module_of(path) for path, _ in starts}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(Path(package.__file__).parents[1]).with_suffix("").parts)


def test_numba_takes_no_settings_from_the_current_folder(tmp_path: Path) -> None:
    """A file there could name a folder with compiled code, which is run."""
    pytest.importorskip("numba")
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path}/cache\ndisable_jit: 1\n")
    code = (
        "import railbed.capture.files.compiled.engine as engine, numba; from numba import config; "
        "print(repr(config.CACHE_DIR), config.DISABLE_JIT)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "'' 0\n", done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
def test_discover_does_not_write_through_a_link_of_another_account(tmp_path: Path) -> None:
    link = tmp_path / "cluster.yaml"
    link.symlink_to(tmp_path / "target")
    os.chown(link, 65534, 65534, follow_symlinks=False)
    refused = railbed(tmp_path, "discover", "203.0.113.1")
    assert (refused.code, "cluster.yaml is a link of another account, and is not followed" in refused.err) == (2, True)
    assert not (tmp_path / "target").exists()
