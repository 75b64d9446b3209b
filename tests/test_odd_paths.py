"""Paths that no disk has, wherever a verb takes one: a refusal with one sentence and its hint, never a defect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import railbed

LONG = "x" * 300
NOBODY = "~no-such-account/x"
ODD = {"a name that is too long": LONG, "a folder that is too long": f"{LONG}/y", "an unknown account": NOBODY}
PLACES = (
    "check -c PATH",
    "check -c PATH.yaml",
    "check --replay PATH",
    "discover --key PATH 127.0.0.1",
    "discover --replay PATH",
    "train PATH",
    "train PATH.yaml",
    "train --resume PATH",
    "train --attach PATH",
    "train --stop PATH",
    "bench PATH",
    "bench PATH.yaml",
    "bench --experiment PATH",
    "bench --experiment PATH.yaml",
    "submit train -c slurm:PATH",
    "generate PATH -p hello",
    "export PATH into",
    "report PATH",
    "compare PATH PATH",
    "diagnose PATH",
    "watch -c PATH",
    "capture -c PATH",
    "capture --from PATH",
    "capture --from PATH --export PATH.pcap",
    "parse ip_link PATH",
    "configure -c PATH",
    "configure --undo PATH --yes",
    "lab down --name PATH",
)


@pytest.mark.parametrize("path", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("place", PLACES)
def test_a_path_that_no_disk_has_is_refused(place: str, path: str, tmp_path: Path) -> None:
    result = railbed(tmp_path, *place.replace("PATH", path).split())
    sentence, *hints = result.err.splitlines()
    assert result.code == 2, result
    assert sentence.startswith("railbed: ")
    assert len(hints) <= 3, result.err
    assert "railbed itself failed" not in result.err
