"""Fixes that install Python packages, made to install from a folder of wheels instead of an index."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.rulecase import CASES, load_yaml, site_of

from railbed.check.book import CHECK_BOOK
from railbed.configure.wheels import Wheels
from railbed.model.fix import Fix, RunStep
from railbed.rules.engine import judge

TRAINING = ("numpy-2.2.6", "tokenizers-0.23.2", "torch-2.9.0")
PIP = "/data/env/bin/python -I -m pip --quiet --no-input install --no-index --find-links"


def fixes_with(folder: Path, names: tuple[str, ...], rule: str, case: str) -> list[Fix]:
    """Return the fixes of a case as they install from a folder with wheels of these names."""
    for name in names:
        (folder / f"{name}-py3-none-any.whl").write_bytes(name.encode())
    site = site_of(load_yaml(CASES / rule / f"{case}.yaml"))
    findings = Wheels.from_folder(folder).install_from(site.cluster, judge(CHECK_BOOK, site, [CHECK_BOOK.rules[rule]]))
    return [finding.fix for finding in findings if finding.fix]


def commands(fix: Fix) -> list[str]:
    return [step.command for step in fix.apply if isinstance(step, RunStep)]


@pytest.mark.parametrize(
    ("mpi", "wanted"),
    [(("mpi4py-4.1.2", "mpich-5.0.2"), " 'mpi4py>=4.1' 'mpich>=5.0'"), (("mpi4py-4.1.2",), ""), ((), "")],
)
def test_an_environment_gets_what_the_folder_has(mpi: tuple[str, ...], wanted: str, tmp_path: Path) -> None:
    """The package for environments still comes from the distribution, and is removed last."""
    first, second = fixes_with(tmp_path, (*TRAINING, *mpi), "torch_equal", "environment_without_venv")
    *packages, venv, install = commands(first)
    assert packages[1].endswith(" install python3-venv")
    assert venv == "python3 -I -m venv /data/env"
    assert install.startswith(f"{PIP} /data/.railbed/wheels/")
    assert install.endswith(f" 'numpy>=2.1' 'tokenizers>=0.21' 'torch>=2.9,<2.14'{wanted}")
    assert [str(step).split()[:2] for step in first.undo[:2]] == [["rm", "-r"], ["rm", "-r"]]
    assert len(first.undo) == 3
    assert (first.condition, second.condition) == ("if a reaches a mirror of its packages", "")
    assert commands(second) == [venv, install]


def test_no_index_of_pytorch_is_asked(tmp_path: Path) -> None:
    fixes = fixes_with(tmp_path, TRAINING, "torch_equal", "environment_for_volta")
    assert [len(fix.apply) for fix in fixes] == [2, 2]
    assert not any("--index-url" in command for fix in fixes for command in commands(fix))
    assert {fix.condition for fix in fixes} == {""}


def test_mpi_alone_is_added_from_wheels(tmp_path: Path) -> None:
    first, *_ = fixes_with(tmp_path, ("mpi4py-4.1.2", "mpich-5.0.2"), "mpi_rdma", "missing")
    listing, install = commands(first)
    assert listing.endswith(" >/data/env/installed-before-mpi")
    assert "--no-index --find-links /data/.railbed/wheels/" in install
    assert first.condition == ""
