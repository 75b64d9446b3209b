"""Write the recordings in examples/recordings, from tests/recordings: a cluster file and an index for each device.

`python -m tools.recordings` writes all of them; a test compares them with what would be written.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

from tests.support.recordings import FOLDER, SHIPPED, make_recording

from railbed.model.probe import PairTest
from railbed.probes.outputs import all_probes
from railbed.transport.record import INDEX

CLUSTER = "cluster.yaml"
PRINTED = 1767323045.0
"""When the emulated switch printed everything: 2026-01-02 03:04:05 UTC."""
LONG = 4000
"""Characters of an output that is a file of its own, even if it was read twice."""


def recordings() -> Mapping[str, str]:
    """Return the content of every file, by its path in the folder of the recordings."""
    return {
        f"{source.stem}/{path}": text for source in sorted(FOLDER.glob("*.yaml")) for path, text in _files(source.stem)
    }


def _files(name: str) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as temporary:
        with patch("time.time", return_value=PRINTED):
            folder = make_recording(name, Path(temporary) / name)
        yield CLUSTER, (folder / CLUSTER).read_text()
        for index in sorted(folder.glob(f"*/{INDEX}")):
            files: dict[str, str] = {}
            lines = list(_lines(index, files))
            yield f"{index.parent.name}/{INDEX}", "".join(lines)
            yield from ((f"{index.parent.name}/{name}", text) for name, text in files.items())


def _lines(index: Path, files: dict[str, str]) -> Iterator[str]:
    """Yield the lines of an index, each output once unless it is read twice; long ones go into files."""
    written: set[str] = set()
    for line in map(json.loads, index.read_text().splitlines()):
        name, key = line.pop("stdout", None), line.get("key")
        if key in written and not _is_read_again(key):
            continue
        written.add(key)
        output = _place(name, (index.parent / name).read_text(), files) if name else {}
        yield json.dumps({**line, **output}, ensure_ascii=False) + "\n"


def _place(name: str, text: str, files: dict[str, str]) -> dict[str, str]:
    """Return a text, or the name of the file that has it, which may be an earlier one."""
    if len(text) <= LONG:
        return {"text": text}
    same = next((known for known, content in files.items() if content == text), name)
    files[same] = text
    return {"stdout": same}


def _is_read_again(key: str) -> bool:
    probe = all_probes()[key]
    return probe.twice or isinstance(probe.command, PairTest)


def write_recordings() -> None:
    """Write every file, and remove folders that have no source."""
    for folder in SHIPPED.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for path, text in recordings().items():
        (SHIPPED / path).parent.mkdir(parents=True, exist_ok=True)
        (SHIPPED / path).write_text(text)


if __name__ == "__main__":
    write_recordings()
