"""Who else sets the QoS of interfaces: DCBX in firmware (`dcb dcbx show`), and lldpad with its settings (`lldptool`).

lldpd, whose name differs by one letter, only announces: it changes no setting.
"""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing import dcb
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

MODES = ("host", "lld-managed", "cee", "ieee", "static")
NOT_HANDLED = ("Device not found", "Agent instance", "Invalid")
"""How the complaints of lldptool begin, such as about an interface that lldpad does not handle."""
YES = {"yes": True, "1": True, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class LldpadPort:
    """What lldpad does on an interface; None for what it did not show."""

    admin_status: str | None = None
    """`disabled`, `rx`, `tx` or `rxtx`."""
    willing: bool | None = None
    """It takes the switch's PFC in place of its own."""
    pfc: tuple[int, ...] | None = None
    """Priorities on which it turns PFC on itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcbx(TextFacts):
    """DCBX agents of a machine."""

    lldpad: bool
    """lldpad runs."""
    units: dict[str, tuple[str, ...]]
    """lldpad's systemd units that exist: `enabled`, `active`, both or neither."""
    agents: dict[str, LldpadPort]
    """What lldpad does, by interface."""
    modes: dict[str, tuple[str, ...]]
    """By interface: `host` or `lld-managed`, and the versions of the protocol. The empty name is a saved output."""
    refused: dict[str, str]
    """The kernel's error message for interfaces without DCBX."""


def parse(text: str) -> Dcbx:
    """Read the sections, or `dcb dcbx show` of one interface."""
    lines = Lines(text)
    parts = dict(lines.sections()) if text.strip() else {}
    if "end" not in parts:
        if any(parts):
            raise ParseError("the output is not complete", line=text.strip().partition("\n")[0])
        parts = {"dcbx ": parts[""]} if parts else {}
    by_kind: dict[str, dict[str, Lines]] = {"unit": {}, "agent": {}, "dcbx": {}}
    for heading, body in parts.items():
        kind, _, name = heading.partition(" ")
        by_kind.get(kind, {})[name] = body
    shown, refused = dcb.read_interfaces(_as_sections(by_kind["dcbx"], lines), MODES)
    return Dcbx(
        lldpad="lldpad" in parts,
        units={name: _states(body) for name, body in by_kind["unit"].items()},
        agents={name: _agent(body) for name, body in by_kind["agent"].items()},
        modes={name: tuple(mode for mode in MODES if mode in words) for name, words in shown.items()},
        refused=refused,
        not_understood=lines.not_understood,
    )


def _as_sections(bodies: dict[str, Lines], lines: Lines) -> Lines:
    texts = (f"==> {name} <==\n{body.text}" if name else body.text for name, body in bodies.items())
    return lines.within("\n".join(texts))


def _states(body: Lines) -> tuple[str, ...]:
    words = [line.strip() for line in body]
    return tuple(state for state in ("enabled", "active") if state in words)


def _agent(body: Lines) -> LldpadPort:
    """Read `key=value` lines."""
    values = {}
    for line in body:
        key, sign, value = line.strip().partition("=")
        if sign:
            values[key] = value
        elif not line.startswith(NOT_HANDLED):
            body.unknown(line)
    enabled = values.get("enabled")
    return LldpadPort(
        admin_status=values.get("adminStatus"),
        willing=YES.get(values.get("willing", "")),
        pfc=None if enabled is None else _priorities(enabled),
    )


def _priorities(text: str) -> tuple[int, ...]:
    return () if text in ("none", "") else tuple(sorted(integer(word) for word in text.split(",")))


COMMAND = """
if grep -qsx lldpad /proc/[0-9]*/comm; then
  echo '==> lldpad <=='
  for unit in lldpad.service lldpad.socket; do
    [ -n "$(systemctl list-unit-files --no-legend "$unit" 2>/dev/null)" ] || continue
    echo "==> unit $unit <=="; systemctl is-enabled "$unit" 2>/dev/null; systemctl is-active "$unit" 2>/dev/null
  done
  for path in /sys/class/net/*; do
    [ -d "$path/device" ] || continue
    name=${path##*/}
    echo "==> agent $name <=="
    lldptool get-lldp -i "$name" adminStatus 2>&1; lldptool get-tlv -i "$name" -V PFC -c 2>&1
  done
fi
if command -v dcb >/dev/null; then
  for path in /sys/class/net/*; do
    name=${path##*/}
    [ "$name" != lo ] && [ -d "$path" ] || continue
    echo "==> dcbx $name <=="; dcb -j dcbx show dev "$name" 2>&1
  done
fi
echo '==> end <=='
"""

PROBE = Probe(
    name="dcbx",
    title="who else sets QoS: lldpad, DCBX in firmware",
    command=COMMAND,
    parse=parse,
    facts=Dcbx,
    needs_root=True,
    one_line=True,
)
