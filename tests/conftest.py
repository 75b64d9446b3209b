"""Options and requirements that all tests share."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import execnet
import pluggy
import pytest
from hypothesis import HealthCheck, settings

from tests.support import skips, warm
from tests.support.browser import Browser, chromium
from tests.support.cli import railbed
from tests.support.labs import SWITCH_PASSWORD, RunningLab, running_lab
from tests.support.ports import free_port
from tests.support.slurm import User, jobs, states, until, user_of
from tests.support.smallrun import write_small_run
from tests.support.strangers import local_user, open_folder
from tests.support.workers import fork_workers

# The same examples in every run: `make soak` has the random ones. A test may be slow because the machine is busy.
settings.register_profile(
    "railbed", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("railbed")

GROUPS = (
    "vm",
    "configure",
    "predicted",
    "nettrain",
    "netns",
    "slurm",
    "train",
    "ranks",
    "bench",
    "models",
    "linear",
    "browser",
    "prometheus",
    "source",
    "package",
)
"""Groups of tests that share a lab or load the machine: each runs in one process, the longest starts first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite expected results; look at the difference")
    parser.addoption("--soak", action="store_true", help="run the long tests, marked `soak`, and no others")


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[execnet.XSpec]) -> None:
    fork_workers(config, specs)


@pytest.fixture(scope="session", autouse=True)
def _own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key that proves whose runs are whose is made for the tests, whatever home folder they set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state", numbered=True)))
        yield


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the test's runs."""
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """Another user of this machine."""
    with local_user() as name:
        yield name


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody can write to, as /tmp is."""
    with open_folder() as path:
        yield path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of our own, which does not exist yet."""
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def netns_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The lab of four namespaces that the tests of a process share.

    Its links have a fixed speed: without one, a pair is as fast as the processors it shares with everything else.
    """
    with running_lab(tmp_path_factory.mktemp("netns"), "--nodes", "4", "--rails", "2", "--rate", "1G") as lab:
        yield lab


@pytest.fixture(scope="session")
def switch_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The lab of two namespaces on an emulated switch that the tests of the group `configure` share."""
    options = ("--nodes", "2", "--rails", "2", "--switch")
    with running_lab(tmp_path_factory.mktemp("switch"), *options, NEXUS_PASSWORD=SWITCH_PASSWORD) as lab:
        yield lab


@pytest.fixture(scope="session")
def slurm_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The lab of three namespaces and a controller with Slurm that the tests of the group `slurm` share.

    `tests/support/slurm.py` has its users and their jobs. Its links have a fixed speed, as those of `netns_lab`.
    """
    options = ("--nodes", "3", "--scheduler", "slurm", "--rate", "1G")
    with running_lab(tmp_path_factory.mktemp("slurm"), *options) as lab:
        yield lab


@pytest.fixture(scope="session")
def slurm_python(slurm_lab: RunningLab) -> Iterator[dict[str, Path]]:
    """The Python with torch loaded that root and nobody have on the nodes of `slurm_lab`."""
    with tempfile.TemporaryDirectory(prefix="railbed-warm-") as folder:
        Path(folder).chmod(0o755)
        with warm.running_for_users(slurm_lab, Path(folder)) as pythons:
            yield pythons


@pytest.fixture(params=["nobody", pytest.param("root", marks=pytest.mark.soak)])
def slurm_user(request: pytest.FixtureRequest, slurm_lab: RunningLab, slurm_python: dict[str, Path]) -> Iterator[User]:
    """An ordinary user, who may do less than root, on the controller of `slurm_lab`, ready to train.

    In the end, no job and no fault is left.
    """
    with user_of(slurm_lab, request.param, slurm_python[request.param]) as user:
        yield user
        commands = f"scancel --user {user.name}; scontrol update nodename=ALL state=resume 2>/dev/null"
        slurm_lab.run_inside("controller", commands)
        slurm_lab.heal()
        until(lambda: not jobs(slurm_lab) and set(states(slurm_lab).values()) == {"idle"})


@pytest.fixture(scope="module")
def single_thread() -> Iterator[None]:
    """torch on one thread: matrices of small models are slower on several."""
    import torch  # most tests do without it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def warm_python(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python with torch loaded that the nodes of the group `nettrain` have."""
    with warm.running(netns_lab, tmp_path_factory.mktemp("warm")) as python:
        yield python


@pytest.fixture(scope="session")
def warm_python_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python with torch loaded that the group `train` has on this machine."""
    with warm.running_here(tmp_path_factory.mktemp("warm-here")) as python:
        yield python


@pytest.fixture(scope="session")
def trained_here(tmp_path_factory: pytest.TempPathFactory, warm_python_here: Path) -> Path:
    """A folder with a run that is done, on this machine, for the group `train`; the run has its own cluster file."""
    folder = tmp_path_factory.mktemp("trained")
    write_small_run(folder, python=warm_python_here, port=free_port("127.0.0.1"))
    done = railbed(folder, "train", "small.yaml", "--ranks", "1", XDG_CACHE_HOME=str(folder / "cache"))
    assert done.code == 0, done
    assert "railbed export" in done.out
    (folder / "cluster.yaml").unlink()
    return folder


@pytest.fixture(scope="session")
def running_browser() -> Iterator[Browser]:
    """The browser of this process: a second one would take seconds to start, and to compile plotly again."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(running_browser: Browser) -> Browser:
    """The shared browser, with an empty page. Tests that use it are in the group `browser`, or in another one."""
    running_browser.start_over()
    return running_browser


@pytest.fixture(scope="session")
def vm_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """The lab of two machines on an emulated switch, ready to train, that the tests of the group `vm` share."""
    options = ("--kind", "vm", "--nodes", "2", "--rails", "2", "--switch", "--with", "training")
    with running_lab(tmp_path_factory.mktemp("vm"), *options) as lab:
        yield lab


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose between the tests for every commit and the long ones, and put the longest group first.

    `--dist loadgroup --no-loadscope-reorder` hands out groups in this order: one process begins with the longest
    group, the other with the rest, and single tests fill the gap at the end.
    """
    soak = config.getoption("--soak")
    deselected = [item for item in items if bool(item.get_closest_marker("soak")) != soak]
    config.hook.pytest_deselected(items=deselected)
    items[:] = sorted((item for item in items if bool(item.get_closest_marker("soak")) == soak), key=_position)


def pytest_collection_finish() -> None:
    """Look for garbage less often, and never among the collected tests: it is 1 % of the time instead of 4 %."""
    gc.freeze()
    gc.set_threshold(20_000)


def _position(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    return GROUPS.index(mark.args[0]) if mark else len(GROUPS)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Turn the skip of a test that is required into a failure: RAILBED_REQUIRE=ssh,shared or all."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        _require(report, {mark.name for mark in item.iter_markers()})


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, pluggy.Result[pytest.CollectReport], None]:
    """Do the same for files that are skipped as a whole, as by `importorskip`."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped:
        _require(report, set())


def _require(report: pytest.TestReport | pytest.CollectReport, marks: set[str]) -> None:
    """Turn a skip into a failure if the test must not be skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if why := skips.refusal(reason.removeprefix("Skipped: "), marks):
        report.outcome = "failed"
        report.longrepr = why
