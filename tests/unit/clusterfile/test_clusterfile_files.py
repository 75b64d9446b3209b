"""Files that cannot be read at all: one sentence each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railbed.clusterfile import load, loads
from railbed.errors import ClusterFileError
from railbed.yamlfile.document import MAX_CHARACTERS

SMALL = "name: x\nnodes: {a: {host: local}}\n"


def refusal_of(path: Path) -> ClusterFileError:
    with pytest.raises(ClusterFileError) as caught:
        load(path)
    return caught.value


def test_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load(path).nodes["a"].host == "local"


def test_missing(tmp_path: Path) -> None:
    error = refusal_of(tmp_path / "none.yaml")
    assert error.message == f"{tmp_path}/none.yaml: there is no such file"
    assert "railbed discover HOST…" in error.hint


def test_empty_hints_at_discover() -> None:
    with pytest.raises(ClusterFileError) as caught:
        loads("", name="cluster.yaml")
    assert "railbed discover HOST…" in caught.value.hint


def test_folder(tmp_path: Path) -> None:
    assert refusal_of(tmp_path).message == f"{tmp_path}: is a folder, not a cluster file"


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be read: Not a directory" in refusal_of(tmp_path / "file" / "cluster.yaml").message


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(SMALL)
    path.chmod(0)
    if os.geteuid() == 0:
        # Root may read everything, so the refusal has to be played.
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    assert refusal_of(path).message == f"{path}: no permission to read it"


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"name: x\nnodes: \xff\xfe\n")
    assert refusal_of(path).message == f"{path}:2: not UTF-8 text; save the file as UTF-8"


def test_path_with_nul() -> None:
    assert "cannot be read" in refusal_of(Path("a\0b")).message


@pytest.mark.parametrize("path", [Path("/dev/zero"), Path("/proc/self/mem")])
def test_devices(path: Path) -> None:
    assert refusal_of(path).message.startswith(f"{path}: ")


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert "larger than 512 KiB" in refusal_of(path).message
    with pytest.raises(ClusterFileError, match="larger than 512 KiB"):
        loads("#" * (MAX_CHARACTERS + 1), name="x")


def test_a_file_of_mistakes_is_counted() -> None:
    text = "name: x\nnodes:\n" + "".join(f"  n{number}: {{hots: h}}\n" for number in range(80))
    with pytest.raises(ClusterFileError) as caught:
        loads(text, name="x")
    lines = caught.value.message.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "x: and 30 more mistakes"
