"""Builds a site from a rule's case file: a cluster, and facts as text, as JSON, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts, DeviceFailure, Known, Output, Unknown
from railbed.probes.outputs import all_probes
from railbed.rules.site import Site

CASES = Path(__file__).parent.parent / "cases" / "rules"


def load_yaml(path: Path) -> Any:
    """Return the content of a file, which the caller may change."""
    return deepcopy(_content(path))


@cache
def _content(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def site_of(case: Mapping[str, Any]) -> Site:
    devices = {name: _device(name, facts or {}) for name, facts in case.get("facts", {}).items()}
    return Site(cluster_of(case), devices, runs=case.get("runs"))


def cluster_of(case: Mapping[str, Any]) -> Cluster:
    return Cluster.model_validate(_merge(_content(CASES / "cluster.yaml"), case.get("cluster", {})))


def _merge(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        merged = {key: _merge(base.get(key), over[key]) if key in over else base[key] for key in base}
        merged |= {key: over[key] for key in over if key not in base}
        return {key: value for key, value in merged.items() if value is not None}
    return over


def _device(name: str, facts: dict[str, Any]) -> DeviceFacts:
    failure = facts.pop("failure", None)
    return DeviceFacts(
        device=name,
        readings={probe: _readings(name, probe, value) for probe, value in facts.items()},
        failure=DeviceFailure(**failure) if failure else None,
    )


def _readings(device: str, probe: str, value: Any) -> tuple[Known[object] | Unknown, ...]:
    values = value["readings"] if isinstance(value, dict) and "readings" in value else [value]
    return tuple(_reading(device, probe, value) for value in values)


def _reading(device: str, name: str, value: Any) -> Known[object] | Unknown:
    probe = all_probes()[name]
    if isinstance(value, str):
        value = {"text": value}
    if "unknown" in value:
        return Unknown(reason=value["unknown"])
    facts = probe.parse(value["text"]) if "text" in value else _adapter(name).validate_python(value["facts"])
    output = Output(
        device=device,
        key=name,
        command="",
        stdout=value.get("text", "").encode(),
        exit=0,
        sent=value.get("sent", 0.0),
        received=value.get("received", 0.0),
    )
    return Known(facts=facts, output=output)


@cache
def _adapter(probe: str) -> TypeAdapter[Any]:
    return TypeAdapter(all_probes()[probe].facts)
