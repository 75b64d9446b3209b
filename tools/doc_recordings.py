"""`python -m tools.doc_recordings KIND RUN`: turn a run on a lab into a recording for the pictures in the documents.

KIND is bench, check or train. A recording contains only what is shown, its times start at a fixed moment, and it
reveals nothing about the machine: no paths, names or processes.

    railbed lab up --nodes 4 --rate 1G; railbed lab fault slow node3 300M; railbed bench             -> bench
    railbed lab fault heal; railbed lab fault mtu node2 1500; railbed check                          -> check
    railbed lab up --nodes 3 --rate 1G; railbed train tiny --min-nodes 2 --set steps=80 --set checkpoint.steps=10,
    and meanwhile `railbed lab fault freeze node2`, `railbed lab fault heal`                         -> train
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.pictures import RECORDINGS

Recorded = dict[str, Any]
BEGAN = 1767323045.0
"""2026-01-02 03:04:05 UTC"""
LAB_CHECK = ("reachable", "link_up", "mtu", "mtu_path")
BENCH_SHOWN = ("bandwidth", "round_trip")
EVERY_STEP = ("loss", "tokens_per_second", "step_seconds")
STEPS_BETWEEN = 5
OWN = (
    (re.compile(r"(/[\w.+-]+)+/labs/[\w-]+/"), "~/.cache/railbed/labs/lab/"),
    (re.compile(r"(/[\w.+-]+)+/bin/python[\d.]*"), "python3"),
    (re.compile(r"/(root|home/\w+)/"), "~/"),
    (re.compile(r"/(work|tmp)(/[\w.+-]+)*"), "~"),
    (re.compile(r"\b20\d{6}-\d{6}(-[0-9a-f]{4})?\b"), "20260102-030405"),
)


def main() -> None:
    """Write one recording."""
    kind, run = sys.argv[1], Path(sys.argv[2])
    records = [json.loads(line) for line in (run / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    began = records[0]["time"]
    if kind == "train":
        folder = RECORDINGS / "train"
        folder.mkdir(exist_ok=True)
        _write(folder / "records.jsonl", _lines(_of_training(records), began))
        about = json.loads((run / "run.json").read_text(encoding="utf-8"))
        (folder / "run.json").write_text(_clean(json.dumps(_summary(about), indent=1)) + "\n", encoding="utf-8")
        (folder / "cluster.yaml").write_text(_clean((run / "cluster.yaml").read_text(encoding="utf-8")), "utf-8")
    elif kind == "bench":
        _write(RECORDINGS / "bench.jsonl", _lines(_of_bench(records), began))
    else:
        shown = [{**record, "evidence": ""} for record in records if record.get("check") in LAB_CHECK]
        _write(RECORDINGS / "lab-check.jsonl", _lines(shown, began))


def _of_bench(records: Iterable[Recorded]) -> Iterator[Recorded]:
    for record in records:
        middle = record.get("name") in BENCH_SHOWN and record["labels"].get("stat") in (None, "p50")
        if record["kind"] == "finding" or record.get("name") == "bench" or middle:
            yield record


def _of_training(records: Iterable[Recorded]) -> Iterator[Recorded]:
    """Yield what the terminal shows for every step, and what only the page shows for every fifth."""
    for record in records:
        step = record.get("labels", {}).get("step", 0)
        if record["kind"] == "measurement" and record["name"] not in EVERY_STEP and step % STEPS_BETWEEN:
            continue
        if record.get("name") not in ("log", "counters"):
            yield record


def _summary(about: Recorded) -> Recorded:
    ended = BEGAN + (about["ended"] or about["started"]) - about["started"]
    return {**about, "id": "20260102-030405-train", "started": BEGAN, "ended": ended, "cluster": "lab", "process": None}


def _lines(records: Iterable[Recorded], began: float) -> Iterator[str]:
    for record in records:
        new = {**record, "time": round(BEGAN + record["time"] - began, 2)}
        if record["kind"] == "measurement":
            new["value"] = float(f"{record['value']:.5g}")
        yield _clean(json.dumps(new, ensure_ascii=False, separators=(",", ":"))) + "\n"


def _clean(text: str) -> str:
    for pattern, replacement in OWN:
        text = pattern.sub(replacement, text)
    return re.sub(r"^name: .*", "name: lab", text, flags=re.MULTILINE)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path.relative_to(RECORDINGS.parent.parent)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
