"""Constants and helpers for the tests of the emulated Nexus."""

from __future__ import annotations

from pathlib import Path

from switchlab.nexus.cli.arguments import expand_interfaces
from switchlab.nexus.session import Session

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "nxos"
PASSWORD = "emulated-only"  # noqa: S105 - of a switch that exists for one test
LOSSLESS = """
feature lldp
class-map type qos match-any ROCE
  match dscp 26
class-map type qos match-any CNP
  match dscp 48
policy-map type qos CLASSIFY
  class ROCE
    set qos-group 3
  class CNP
    set qos-group 7
policy-map type network-qos NETWORK
  class type network-qos c-8q-nq3
    mtu 9216
    pause pfc-cos 3
  class type network-qos c-8q-nq-default
    mtu 9216
policy-map type queuing EGRESS
  class type queuing c-out-8q-q3
    bandwidth remaining percent 50
    random-detect minimum-threshold 150 kbytes maximum-threshold 1500 kbytes drop-probability 10 weight 0 ecn
  class type queuing c-out-8q-q-default
    bandwidth remaining percent 50
  class type queuing c-out-8q-q7
    priority level 1
system qos
  service-policy type queuing output EGRESS
  service-policy type network-qos NETWORK
priority-flow-control watch-dog-interval on
interface Ethernet1/1-2
  priority-flow-control mode on
  priority-flow-control watch-dog-interval on
  mtu 9216
  service-policy type qos input CLASSIFY
"""


def run(session: Session, *commands: str) -> str:
    """Run commands that must succeed; return what the last one printed."""
    text = ""
    for command in commands:
        reply = session.execute(command)
        assert not reply.failed, f"{command}: {reply.text}"
        text = reply.text
    return text


def refuse(session: Session, command: str) -> str:
    """Run a command that must fail; return the error text."""
    reply = session.execute(command)
    assert reply.failed, f"{command} was accepted: {reply.text}"
    return reply.text


def config_lines(text: str) -> set[tuple[str, ...]]:
    """Return every line of a configuration together with the lines above it, with ranges of ports written out."""
    paths: set[tuple[str, ...]] = set()
    stack: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("!"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        stack[depth:] = [line.strip()]
        heads = expand_interfaces(stack[0].removeprefix("interface ")) if stack[0].startswith("interface ") else None
        paths |= {(f"interface {head}", *stack[1:]) for head in heads} if heads else {tuple(stack)}
    return paths
