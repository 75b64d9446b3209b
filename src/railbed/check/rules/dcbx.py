"""Nothing but the host's own settings decides about PFC.

What
----
Neither lldpad nor a DCBX agent in the card's firmware sets PFC on an RDMA interface: `dcb dcbx show dev IF` shows
`host`, not `lld-managed`, `mlnx_qos -i IF` shows `OS controlled`, and lldpad does not run. An lldpad that does not take
the switch's settings, and turns PFC on for the policy's priority alone, agrees with the policy and is ok.

Why
---
Both exchange settings with the switch by LLDP whenever the link comes up, and then write theirs over what `dcb` or
`mlnx_qos` had set: lldpad takes the switch's unless configured otherwise, and without an answer it turns PFC off.
Every rule may be ok today, and after a cable was pulled one node drops packets that all others would have held back.

Fix
---
`systemctl disable --now lldpad.service lldpad.socket`, if nothing else (FCoE, EVB) needs it. Firmware: `mlnx_qos -i IF
--dcbx os`, or `dcb dcbx set dev IF host ieee`; Intel: `ethtool --set-priv-flags IF fw-lldp-agent off`. Permanently on
ConnectX: `mlxconfig -d ADDRESS set LLDP_NB_DCBX_P1=0`, then a reset of the card.

Source
------
IEEE 802.1Qaz (willing); lldpad(8), lldptool-pfc(8), dcb-dcbx(8); Linux kernel, mlx5 `en_dcbnl.c`, ice documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import first_of, no_pfc, no_rdma
from railbed.check.shared.qos import ofed_qos
from railbed.model.fix import Fix, Persistence, RunStep, Step
from railbed.probes import dcbx, ethtool_private, mlnx_qos
from railbed.probes.dcbx import Dcbx, LldpadPort
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "only the host sets PFC"
FIRMWARE = "Firmware controlled"
AGENT_FLAGS = {"fw-lldp-agent": True, "disable-fw-lldp": False}
"""Private flags of Intel's drivers ice and i40e, and which value means that the agent in firmware runs."""
WITHOUT_TOOL = "dcb dcbx set dev {netdev} host ieee; it is lost at reboot: LLDP_NB_DCBX_P1=0 in the firmware lasts"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look for an agent in firmware, then for lldpad, which leaves interfaces with the former alone."""
    lacking = card_of(port).lacks(Ability.PFC)
    if lacking:
        yield skip(lacking, expected=EXPECTED)
        return
    facts = port.read(dcbx.PROBE)
    netdev = port.port.netdev
    qos = ofed_qos(port)
    if _is_firmware_master(port, facts):
        yield _firmware(port)
    elif facts.lldpad and netdev not in facts.refused:
        yield _lldpad(port, facts)
    elif netdev in facts.modes or (qos and qos.dcbx_mode):
        yield ok(expected=EXPECTED, observed="set by the host")
    elif netdev in facts.refused:
        yield ok(expected=EXPECTED, observed="no DCBX on the interface")
    else:
        remedy = "install `dcb` of iproute2 5.11 or newer"
        yield unknown(expected=EXPECTED, observed=f"no source shows who sets PFC on {netdev}", remedy=remedy)


def _is_firmware_master(port: PortView, facts: Dcbx) -> bool:
    qos = ofed_qos(port)
    if qos and qos.dcbx_mode:
        return qos.dcbx_mode == FIRMWARE
    modes = facts.modes.get(port.port.netdev, ())
    if "lld-managed" in modes:
        return True
    # mlx5 never sets that flag: it drops `host` instead, and shows the versions of the protocol in either case.
    return bool(modes) and "host" not in modes and card_of(port).family == "mlx5"


def _firmware(port: PortView) -> Judgement:
    observed = "DCBX in the card's firmware sets it as the switch says"
    fix = _firmware_fix(port)
    remedy = "" if fix else WITHOUT_TOOL.format(netdev=quote(port.port.netdev))
    return warn(expected=EXPECTED, observed=observed, fix=fix, remedy=remedy)


def _firmware_fix(port: PortView) -> Fix | None:
    netdev, qos = quote(port.port.netdev), ofed_qos(port)
    if qos and qos.dcbx_mode == FIRMWARE:
        steps = [RunStep(command=f"mlnx_qos -i {netdev} --dcbx {mode}") for mode in ("os", "fw")]
    elif flag := _agent_flag(port):
        at_work, stopped = ("on", "off") if AGENT_FLAGS[flag] else ("off", "on")
        steps = [_set_flag(netdev, flag, *change) for change in ((at_work, stopped), (stopped, at_work))]
    else:
        # `dcb` cannot give the mode back: it has no word for none of the flags.
        return None
    apply, undo = steps
    return Fix(device=port.node.name, apply=(apply,), undo=(undo,), persistence=Persistence.BOOT, interrupts=True)


def _set_flag(netdev: str, flag: str, before: str, after: str) -> RunStep:
    return RunStep(
        command=f"ethtool --set-priv-flags {netdev} {flag} {after}",
        only_if=f"ethtool --show-priv-flags {netdev} | grep -q '^{flag} *: {before}'",
    )


def _agent_flag(port: PortView) -> str:
    facts = port.node.try_read(ethtool_private.PROBE)
    flags = facts.interfaces.get(port.port.netdev, {}) if facts else {}
    return next((flag for flag, at_work in AGENT_FLAGS.items() if flags.get(flag) is at_work), "")


def _lldpad(port: PortView, facts: Dcbx) -> Judgement:
    agent = facts.agents.get(port.port.netdev, LldpadPort())
    if agent.willing is False and agent.pfc == (port.policy.priority,):
        return ok(expected=EXPECTED, observed=f"lldpad sets it, too: PFC on {port.policy.priority}, not willing")
    fix = _stop_lldpad(port, facts)
    remedy = "" if fix else "end lldpad, and whatever starts it: no systemd unit of it is here"
    return warn(expected=EXPECTED, observed=_describe(agent), fix=fix, remedy=remedy)


def _describe(agent: LldpadPort) -> str:
    if agent.willing is None and agent.pfc is None:
        return "lldpad sets it, too"
    own = "off" if not agent.pfc else f"on {' and '.join(map(str, agent.pfc))}"
    return f"lldpad sets it, too: as the switch says, else {own}" if agent.willing else f"lldpad sets it, too: {own}"


def _stop_lldpad(port: PortView, facts: Dcbx) -> Fix | None:
    """Stop lldpad on the node; two ports share the fix. Undoing enables and starts what was enabled and ran."""
    apply: list[Step] = []
    undo: list[Step] = []
    for unit, states in facts.units.items():
        name = quote(unit)
        if states:
            at_work = f"systemctl is-enabled --quiet {name} || systemctl is-active --quiet {name}"
            apply.append(RunStep(command=f"systemctl disable --now {name}", only_if=at_work))
        undo += [RunStep(command=f"systemctl {VERBS[state]} {name}") for state in states]
    if not apply:
        return None
    return Fix(
        device=port.node.name,
        apply=tuple(apply),
        undo=tuple(undo),
        persistence=Persistence.KEPT,
        interrupts=True,
        condition="if nothing on the node needs it, such as FCoE",
        note="then `railbed check pfc`: lldpad leaves its settings behind",
    )


VERBS = {"enabled": "enable", "active": "start"}

RULE = Rule(
    name="dcbx",
    title="nothing but the host sets PFC",
    scope="port",
    needs=(dcbx.PROBE, mlnx_qos.PROBE, ethtool_private.PROBE, *CARD_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_pfc),
    doc=__doc__,
    rank=115,
)
