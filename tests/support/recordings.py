"""Makes a recording for `--replay` from a file with the outputs of all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from railbed.model.reading import Output
from railbed.probes.outputs import all_probes
from railbed.transport.record import OutputRecorder
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.counters import MacEntry, Neighbour
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from tests.support.nexus import printed
from tests.support.rulecase import load_yaml

FOLDER = Path(__file__).parent.parent / "recordings"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
VARIABLES = ("address", "peer", "other", "gid")


def make_recording(name: str, folder: Path) -> Path:
    """Write the recording with the cluster file of the example of the same name, and return its folder."""
    recording = load_yaml(FOLDER / f"{name}.yaml")
    folder.mkdir()
    (folder / "cluster.yaml").write_text((EXAMPLES / f"{name}.yaml").read_text())
    with OutputRecorder(folder) as recorder:
        for node, own in recording["nodes"].items():
            variables = {"name": node, **{key: own[key] for key in VARIABLES}}
            outputs = {**recording["common"], **{key: text for key, text in own.items() if key not in VARIABLES}}
            for probe, texts in outputs.items():
                readings = texts if isinstance(texts, list) else [texts]
                for text in readings * (3 - len(readings)):
                    recorder.store(recorded_output(node, probe, Template(text).substitute(variables)))
        for switch, own in recording.get("switches", {}).items():
            for output in _printed_by(switch, own):
                recorder.store(output)
    return folder


def _printed_by(name: str, own: dict[str, Any]) -> Iterator[Output]:
    """Yield what an emulated switch prints for every probe, twice."""
    switch = Switch(PLATFORMS[own["platform"]])
    assert apply_lines(switch, own["config"].splitlines()) == []
    for port, end in own["cables"].items():
        switch.add_mac(MacEntry(vlan=1, address=end["mac"], port=port))
        switch.add_neighbour(
            Neighbour(port=port, chassis_id=end["mac"], port_id=end["netdev"], system_name=end["node"])
        )
        switch.set_link(port, up=True, mbps=own["mbps"])
    for probe in all_probes().values():
        if probe.runs_on == "switch":
            output = replace(printed(switch, str(probe.command)), device=name, key=probe.name, received=0.01)
            yield from (output, output)


def recorded_output(node: str, probe: str, text: str) -> Output:
    return Output(device=node, key=probe, command="", stdout=text.encode(), exit=0, sent=0.0, received=0.01)
