"""The examples of docs/api.md, each run in a folder with a cluster file, a recording and a training run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import railbed
from tests.support.recordings import make_recording
from tests.support.watched import Generated, write_generated

pytestmark = pytest.mark.xdist_group("train")
PAGE = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
EXAMPLES = {
    section.partition("\n")[0]: block
    for section in PAGE.split("\n## ")[1:]
    for block in re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAILBED_RUNS", raising=False)
    make_recording("two-roce-vms", tmp_path / "recording")
    (tmp_path / "cluster.yaml").write_text(
        f"name: here\nnodes: {{here: {{host: local, python: {sys.executable}}}}}\n"
        f"training: {{workdir: {tmp_path / 'work'}}}\n"
    )
    (suite,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "nightly.yaml").write_text(suite)
    write_generated(Generated(nodes=2, seconds=40))
    return tmp_path


@pytest.fixture
def with_weights(trained_here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of a training that ran, which other tests use, too."""
    monkeypatch.chdir(trained_here)
    yield
    shutil.rmtree("weights", ignore_errors=True)


def test_there_are_at_least_ten() -> None:
    assert len(EXAMPLES) >= 10
    assert len(EXAMPLES) == PAGE.count("```python")


@pytest.mark.parametrize(
    "title",
    [
        pytest.param(title, marks=[pytest.mark.netns] if "railbed.Lab(" in example else [])
        for title, example in EXAMPLES.items()
    ],
)
@pytest.mark.usefixtures("folder")
def test_example(title: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    if "railbed.export(" in EXAMPLES[title]:
        request.getfixturevalue("with_weights")
    before = {run.id for run in railbed.runs()}
    exec(compile(EXAMPLES[title], title, "exec"), {"__name__": "example"})  # noqa: S102  (our own page)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Traceback" not in printed.out
    assert not any(run.status in ("failed", "died") for run in railbed.runs() if run.id not in before)


def test_every_name_is_on_the_page() -> None:
    missing = [name for name in (*railbed.HOMES, *railbed.MODULES) if not re.search(rf"\b{name}\b", PAGE)]
    assert missing == []
