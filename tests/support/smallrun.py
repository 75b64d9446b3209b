"""Files for a training run that one node finishes within seconds."""

from __future__ import annotations

from pathlib import Path

RECIPE = """
extends: tiny
steps: 12
model: {{layers: 2, heads: 2, width: 32, context: 32, vocabulary: 300}}
data: {{files: [text.txt], validation: 0.1, sample: 8}}
batch: {{sequences: 8}}
threads: 1
checkpoint: {{steps: 5}}
evaluation: {{every: {evaluate_every}}}
"""
CLUSTER = """
name: here
nodes:
  here: {{host: local, python: {python}}}
training: {{workdir: {workdir}, rendezvous_port: {port}}}
"""


def write_text(folder: Path) -> None:
    """Write `text.txt`: the same on every machine, quick to send to nodes, and something to learn from."""
    (folder / "text.txt").write_text("".join(f"{n} green bottles hang on wall {n * n % 97}\n" for n in range(900)))


def write_small_run(folder: Path, *, python: Path, port: int, evaluate_every: int = 0) -> Path:
    """Write `small.yaml`, its text and a cluster of this machine that works in `work`; return the folder."""
    write_text(folder)
    (folder / "small.yaml").write_text(RECIPE.format(evaluate_every=evaluate_every))
    text = CLUSTER.format(python=python, workdir=folder / "work", port=port)
    (folder / "cluster.yaml").write_text(text)
    return folder
