"""From a raw output to a reading: the only place where a parser is called on device output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from railbed import catalog, probes
from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.model.reading import Known, Output, Unknown

F = TypeVar("F")
EVIDENCE_CHARS = 2000
NOT_FOUND, NOT_EXECUTABLE = 127, 126


@cache
def all_probes() -> Mapping[str, Probe[Any]]:
    """Return every probe by name."""
    return catalog.collect(probes, Probe, "PROBE")


def parse_output(probe: Probe[F], output: Output) -> Known[F] | Unknown:
    """Return the facts that a probe parses from an output, or why there are none."""
    obstacle = _obstacle(probe, output)
    if obstacle:
        return obstacle
    try:
        return Known(facts=probe.parse(output.text), output=output)
    except ParseError as error:
        return Unknown(
            reason=f"the output of {probe.name} could not be parsed: {error.message}",
            remedy=f"see the run's raw outputs, and try `railbed parse {probe.name} FILE`",
            evidence=output.text[:EVIDENCE_CHARS],
        )


def _obstacle(probe: Probe[Any], output: Output) -> Unknown | None:
    evidence = output.complaint or output.stdout[:EVIDENCE_CHARS].decode("utf-8", "replace")
    if output.failure:
        remedy = "if the device is slow or busy, give it more time with --timeout" if output.ran_late else ""
        return Unknown(reason=f"{probe.name} {output.failure}", remedy=remedy, evidence=evidence)
    if excess := output.excess(one_line=probe.one_line):
        return Unknown(
            reason=f"{probe.name} {excess}", remedy="run the command there and look at its output", evidence=evidence
        )
    if probe.needs_root and output.exit != 0 and "sudo" in output.complaint:
        remedy = f"log in as root, or let this account run `{probe.tool or 'sh'}` through sudo without a password"
        return Unknown(reason=f"{probe.name} needs root", remedy=remedy, evidence=evidence)
    if output.exit in (NOT_FOUND, NOT_EXECUTABLE) and probe.tool:
        package = f"install the package {probe.package or probe.tool} there"
        return Unknown(reason=f"{probe.tool} is not installed", remedy=package, evidence=evidence)
    if output.exit != 0 and not output.stdout.strip():
        complaint = f": {output.complaint}" if output.complaint else ""
        return Unknown(reason=f"{probe.name} exited with {output.exit}{complaint}", evidence=evidence)
    return None
