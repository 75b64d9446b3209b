"""Measure how bf16 on the wire affects loss and bytes: the same training three times, on two ranks of this machine.

    python -m tools.bench_wire [--recipe tiny] [--steps 100]

Prints a table of losses and bytes, and the curves, as Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median

FORMS = ("fp32", "bf16", "bf16-feedback")
POINTS = 20
Series = dict[int, float]


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="tiny")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    runs = {form: train(arguments.recipe, arguments.steps, form) for form in FORMS}
    print_table(runs)
    print_curves(runs)


def train(recipe: str, steps: int, form: str) -> dict[str, Series]:
    """Train with one wire format; return the measurements of rank 0, by name and step."""
    railbed = Path(sys.executable).parent / "railbed"
    settings = [f"steps={steps}", f"evaluation.every={steps}", f"wire={form}"]
    with tempfile.TemporaryDirectory() as folder:
        options = [part for setting in settings for part in ("--set", setting)]
        command = [str(railbed), "train", recipe, "--cluster", "local", "--json", *options]
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    series: dict[str, Series] = defaultdict(dict)
    for record in map(json.loads, done.stdout.splitlines()):
        labels = record.get("labels", {})
        if record["kind"] == "measurement" and labels.get("rank") == 0 and "step" in labels:
            series[record["name"]][labels["step"]] = record["value"]
    return series


def print_table(runs: dict[str, dict[str, Series]]) -> None:
    """Print loss and bytes of each format, and how much its loss differs from that of fp32."""
    print("| wire | bytes sent per step, median | final loss | validation | mean difference | largest difference |")
    print("|---|--:|--:|--:|--:|--:|")
    exact = runs["fp32"]["loss"]
    for form, run in runs.items():
        distances = [abs(loss - exact[step]) for step, loss in run["loss"].items()]
        (validation,) = run["validation_loss"].values()
        last = run["loss"][max(run["loss"])]
        sent = f"{median(run['bytes_sent'].values()) / 1e6:.2f} MB"
        print(f"| {form} | {sent} | {last:.4f} | {validation:.4f} | {fmean(distances):.4f} | {max(distances):.4f} |")


def print_curves(runs: dict[str, dict[str, Series]]) -> None:
    """Print the curves as a chart in Markdown."""
    steps = sorted(runs["fp32"]["loss"])
    shown = [steps[at * (len(steps) - 1) // (POINTS - 1)] for at in range(POINTS)]
    print("\n```mermaid\nxychart-beta")
    print(f'  title "loss over steps: {", ".join(runs)}"')
    print(f"  x-axis {shown}")
    for run in runs.values():
        print(f"  line {[round(run['loss'][step], 3) for step in shown]}")
    print("```")


if __name__ == "__main__":
    main()
