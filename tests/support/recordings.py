"""Makes a recording, as `--replay` takes it, from a file that gives the outputs of all nodes."""

from __future__ import annotations

from pathlib import Path
from string import Template

from railbed.model.output import Output
from railbed.transport.record import Recorder
from tests.support.rulecase import load_yaml

FOLDER = Path(__file__).parent.parent / "recordings"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
VARIABLES = ("address", "peer", "other", "gid")


def make_recording(name: str, folder: Path) -> Path:
    """Write the recording with the cluster file of the example of the same name, and return its folder."""
    recording = load_yaml(FOLDER / f"{name}.yaml")
    folder.mkdir()
    (folder / "cluster.yaml").write_text((EXAMPLES / f"{name}.yaml").read_text())
    with Recorder(folder) as recorder:
        for node, own in recording["nodes"].items():
            variables = {"name": node, **{key: own[key] for key in VARIABLES}}
            outputs = {**recording["common"], **{key: text for key, text in own.items() if key not in VARIABLES}}
            for probe, texts in outputs.items():
                readings = texts if isinstance(texts, list) else [texts]
                for text in readings * (3 - len(readings)):
                    recorder.store(_output(node, probe, Template(text).substitute(variables)))
    return folder


def _output(node: str, probe: str, text: str) -> Output:
    return Output(device=node, key=probe, command="", stdout=text.encode(), exit=0, sent=0.0, received=0.01)
