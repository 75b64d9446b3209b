"""What GitHub runs: every test on both processors, with no more rights and time than that takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load(path)["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_ends(path: Path) -> None:
    assert YAML(typ="safe").load(path)["permissions"] == {"contents": "read"}
    for job in jobs(path):
        assert job["timeout-minutes"] <= 60
        assert "permissions" not in job
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "owner/action@v1")), step


def test_make_test_runs_on_both_processors() -> None:
    (job,) = jobs(ROOT / ".github" / "workflows" / "test.yml")
    assert set(job["strategy"]["matrix"]["runner"]) == {"ubuntu-24.04", "ubuntu-24.04-arm"}
    command = ROOT / job["steps"][-1]["run"]
    assert command.stat().st_mode & 0o100
    assert command.read_text().splitlines()[-1] == "make test"
