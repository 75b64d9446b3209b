"""How each kind of card is recorded: `cases/capture/methods/*.yaml` over the machines of the probes' cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from railbed.capture.methods import PROBES, NoMethod, choose_method, software_ports
from railbed.capture.recording import PortPlan
from railbed.capture.run import CaptureRequest, _fixes, _ports, _refuse_without_tcpdump
from railbed.errors import ToolMissing, UsageError
from railbed.model.cluster import Cluster, Port
from railbed.model.reading import DeviceFacts, Known, Output, Unknown

CASES = Path(__file__).parent.parent.parent / "cases"
LISTED = YAML(typ="safe").load((CASES / "capture" / "methods" / "cards.yaml").read_text())


def port_of(case: dict[str, Any]) -> Port:
    return Port(**case["port"], rail="rail0", address="10.1.0.1")


def facts_of(case: dict[str, Any]) -> DeviceFacts:
    """Return what the probes read: the name of a case of theirs, facts as they are, or why they are unknown."""
    readings: dict[str, tuple[Known[object] | Unknown, ...]] = {}
    for probe in PROBES:
        match case["facts"].get(probe.name):
            case None:
                continue
            case {"unknown": reason}:
                readings[probe.name] = (Unknown(reason=reason),)
            case {"facts": facts}:
                readings[probe.name] = (known(TypeAdapter(probe.facts).validate_python(facts)),)
            case name:
                text = (CASES / "probes" / probe.name / f"{name}.txt").read_text()
                readings[probe.name] = (known(probe.parse(text)),)
    return DeviceFacts(device="a", readings=readings)


def known(facts: object) -> Known[object]:
    output = Output(device="a", key="x", command="", stdout=b"", exit=0, sent=0.0, received=0.0)
    return Known(facts=facts, output=output)


@pytest.mark.parametrize("case", LISTED, ids=lambda case: str(case["port"].get("rdma", case["port"]["netdev"])))
def test_a_card_is_recorded_as_it_allows(case: dict[str, Any]) -> None:
    method = choose_method("a", port_of(case), facts_of(case))
    expected = case["expect"]
    if isinstance(method, NoMethod):
        assert expected["refused"] in method.why
        assert expected.get("remedy", "") in method.remedy
        return
    assert (method.name, method.source) == (expected["method"], expected["source"])
    assert expected.get("why", "") in method.why
    assert bool(method.cost) == (method.name != "kernel")
    steps = (str(method.fix.apply[0]), str(method.fix.undo[0])) if method.fix else (None, None)
    assert steps == (expected.get("apply"), expected.get("undo"))
    assert method.nanoseconds == (method.name != "card"), "libpcap has no nanoseconds on an RDMA device"


@pytest.mark.parametrize(("parent", "driver"), [("ens1", None), (None, "mlx5_core")])
def test_the_device_shows_that_it_is_software_whatever_its_name(parent: str | None, driver: str | None) -> None:
    device: dict[str, Any] = {"name": "roce0", "ports": {}, "parent": parent, "driver": driver}
    case = {"facts": {"infiniband": {"facts": {"devices": {"roce0": device}}}}}
    port = Port(netdev="ens1", rdma="roce0", rail="rail0", address="10.1.0.1")
    known = {("a", "ens1"): driver is None}
    assert software_ports([("a", port), ("b", port)], {"a": facts_of(case)}) == known


def test_flags_of_one_node_are_one_change() -> None:
    (case,) = [case for case in LISTED if "apply" in case["expect"]]
    method = choose_method("a", port_of(case), facts_of(case))
    assert not isinstance(method, NoMethod)
    plans = [PortPlan(node="a", port=port_of(case), method=method)] * 2
    (fix,) = _fixes(plans)
    assert (len(fix.apply), len(fix.undo)) == (2, 2)


def test_a_node_without_tcpdump_is_refused_before_anything_starts() -> None:
    (case,) = [case for case in LISTED if case["expect"].get("refused") == "tcpdump is not installed"]
    port = port_of(case)
    with pytest.raises(ToolMissing, match="tcpdump cannot be used on a: tcpdump is not installed") as error:
        _refuse_without_tcpdump({("a", port): choose_method("a", port, facts_of(case))})
    assert "railbed configure" in error.value.hint


CLUSTER = Cluster.model_validate(
    {
        "name": "x",
        "rails": {"rail0": {"subnet": "10.1.0.0/24"}, "rail1": {"subnet": "10.2.0.0/24"}},
        "nodes": {
            name: {
                "host": f"10.0.0.{number}",
                "ports": [
                    {"netdev": f"eth{rail}", "rail": f"rail{rail}", "address": f"10.{rail + 1}.0.{number}"}
                    for rail in range(2)
                ],
            }
            for number, name in enumerate("ab", start=1)
        },
    }
)


def test_ports_are_chosen_by_node_and_rail() -> None:
    chosen = _ports(CLUSTER, CaptureRequest(nodes=["b"], rails=["rail1"]))
    assert [(node, port.netdev) for node, port in chosen] == [("b", "eth1")]
    assert len(_ports(CLUSTER, CaptureRequest())) == 4
    for request in (CaptureRequest(nodes=["c"]), CaptureRequest(rails=["rail7"])):
        with pytest.raises(UsageError, match=r"the cluster has no (node 'c'|rail 'rail7')"):
            _ports(CLUSTER, request)
