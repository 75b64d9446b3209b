"""Makes a recording for `--replay` from a file with the outputs of all nodes.

`nodes:` of the file has the outputs of each node by probe, `common:` those that it leaves out; `like:` names a file
whose `common:` stands below. Texts may have `$name`, `$address`, `$gid` of the node, and of two nodes `$peer` and
`$other`; `$pings` and `$meetings` are what tests of all pairs print if they pass. `rename:` of a node replaces words in
the texts that are not its own, so that a card may have another name; `error:` is why it could not be reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from string import Template
from typing import Any

from railbed import clusterfile
from railbed.model.cluster import Cluster
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
SHIPPED = EXAMPLES / "recordings"
VARIABLES = ("address", "peer", "other", "gid")
NOT_OUTPUTS = (*VARIABLES, "rename", "error")
RENDEZVOUS_PORT = 29500
SMALL = 84
"""Bytes of the first packet of a path test."""
PING = """\
==> {netdev} {peer} {size} <==
PING {peer} ({peer}) from {address} {netdev}: {payload}({size}) bytes of data.
{passed} bytes from {peer}: icmp_seq=1 ttl=64 time=0.110 ms
"""
MEETING = "==> {other} {peer} {port} <==\nbash: connect: Connection refused\n"


def make_recording(name: str, folder: Path) -> Path:
    """Write the recording with the cluster file of the example of the same name, and return its folder."""
    recording = load_yaml(FOLDER / f"{name}.yaml")
    common = {**_common(recording.get("like")), **recording.get("common", {})}
    cluster = clusterfile.load(EXAMPLES / f"{name}.yaml")
    folder.mkdir()
    (folder / "cluster.yaml").write_text((EXAMPLES / f"{name}.yaml").read_text())
    with OutputRecorder(folder) as recorder:
        for node, own in recording["nodes"].items():
            if "error" in own:
                recorder.store_error(node, **own["error"])
                continue
            for probe, texts in _outputs_of(cluster, node, own or {}, common).items():
                readings = texts if isinstance(texts, list) else [texts]
                for text in readings * (3 - len(readings)):
                    recorder.store(recorded_output(node, probe, text))
        for switch, own in recording.get("switches", {}).items():
            for output in _printed_by(switch, own):
                recorder.store(output)
    return folder


def _common(name: str | None) -> Mapping[str, Any]:
    return load_yaml(FOLDER / f"{name}.yaml")["common"] if name else {}


def _outputs_of(
    cluster: Cluster, node: str, own: Mapping[str, Any], common: Mapping[str, Any]
) -> Mapping[str, str | list[str]]:
    """Return the texts of a node by probe; several for a probe that is read twice."""
    variables = {**_variables(cluster, node), **{key: own[key] for key in VARIABLES if key in own}}

    def complete(texts: Any, rename: Mapping[str, str]) -> Any:
        if isinstance(texts, list):
            return [complete(text, rename) for text in texts]
        text = Template(texts).substitute(variables)
        for before, after in rename.items():
            text = text.replace(before, after)
        return text

    inherited = {probe: texts for probe, texts in common.items() if probe not in own}
    written = {probe: texts for probe, texts in own.items() if probe not in NOT_OUTPUTS}
    return {
        **{probe: complete(texts, own.get("rename", {})) for probe, texts in inherited.items()},
        **{probe: complete(texts, {}) for probe, texts in written.items()},
    }


def _variables(cluster: Cluster, node: str) -> Mapping[str, str]:
    first = cluster.nodes[node].ports[0]
    return {
        "name": node,
        "host": cluster.nodes[node].host,
        "address": str(first.address),
        "gid": gid(str(first.address)),
        "pings": "".join(_pings(cluster, node)),
        "meetings": "".join(_meetings(cluster, node)),
    }


def gid(address: str) -> str:
    """Return the RoCE GID of an IPv4 address, as sysfs prints it."""
    return ip_address(f"::ffff:{address}").exploded


def _pings(cluster: Cluster, node: str) -> Iterator[str]:
    for port in cluster.nodes[node].ports:
        for _, peer in cluster.peers(node, port):
            for size in (SMALL, cluster.mtu_of(port.rail)):
                yield PING.format(
                    netdev=port.netdev,
                    peer=peer.address,
                    size=size,
                    address=port.address,
                    payload=size - 28,
                    passed=size - 20,
                )


def _meetings(cluster: Cluster, node: str) -> Iterator[str]:
    for port in cluster.nodes[node].ports:
        for other, peer in cluster.peers(node, port):
            yield MEETING.format(other=other, peer=peer.address, port=RENDEZVOUS_PORT)


def _printed_by(name: str, own: dict[str, Any]) -> Iterator[Output]:
    """Yield what an emulated switch prints for every probe, twice."""
    platform = PLATFORMS[own["platform"]]
    if "ports" in own:  # of which the output would be too long
        platform = replace(platform, ports=(replace(platform.ports[0], last=own["ports"]),))
    switch = Switch(platform)
    switch.booted = time.time()  # which a caller may have set
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
