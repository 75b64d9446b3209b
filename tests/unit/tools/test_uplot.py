"""How uPlot gets into the source tree: only the expected files, never others."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from tools import uplot

CONTENT = {"uplot/static/uPlot.iife.js": b"script", "uplot/static/uPlot.min.css": b"style"}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in CONTENT.items():
            archive.writestr(name, data)
    monkeypatch.setattr(uplot, "FILES", {name: uplot._digest(data) for name, data in CONTENT.items()})
    return path


def test_the_files_and_the_licence_are_extracted(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "static"
    assert not uplot.is_complete(folder)
    uplot.extract(wheel, folder)
    assert uplot.is_complete(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["LICENSE.txt", "uPlot.iife.js", "uPlot.min.css"]
    assert "Leon Sorokin" in (folder / "LICENSE.txt").read_text()
    (folder / "uPlot.iife.js").write_bytes(b"changed")
    assert not uplot.is_complete(folder)


def test_another_content_is_refused(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplot, "FILES", dict.fromkeys(CONTENT, "0" * 64))
    with pytest.raises(uplot.Altered, match="not the file that railbed was tested with"):
        uplot.extract(wheel, tmp_path / "static")
    monkeypatch.setattr(uplot, "FILES", {"other": "0" * 64})
    with pytest.raises(uplot.Altered, match="does not contain uPlot"):
        uplot.extract(wheel, tmp_path / "static")
    assert not (tmp_path / "static").exists()


def test_without_pip_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(uplot.NotObtained, match="pip could not download uplot-python"):
        uplot.obtain(tmp_path)


def test_complete_files_are_not_downloaded_again(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uplot.extract(wheel, tmp_path / uplot.FOLDER)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    uplot.obtain(tmp_path)
