"""The lossless priority has a receive buffer of its own that holds what arrives after a pause.

What
----
`dcb buffer` (or `mlnx_qos`) shows that no other priority uses the receive buffer of the policy's priority, and that the
buffer is large enough for the negotiated speed and the MTU. With PFC off, the firmware of ConnectX-4 and later
has all priorities in one buffer and assigns another with PFC: it is judged once PFC is on.
The next boot restores it: it is a warning if nothing sets it at boot, and it does not come with PFC.

Why
---
A pause takes a while to reach the sender: what is on the cable by then needs room. If other priorities share the
buffer, they fill it, and the card drops gradients although PFC is on: the same symptom as no PFC at all.

Fix
---
`dcb buffer set dev IF prio-buffer 0:0 … 3:1 … buffer-size 0:N 1:N`, or `mlnx_qos -i IF --prio2buffer 0,0,0,1,0,0,0,0
--buffer_size N,N,0,0,0,0,0,0`. Both are lost at reboot. For cables of more than 7 m also `mlnx_qos -i IF --cable_len`.

Source
------
iproute2, dcb-buffer(8); Linux kernel, mlx5 en/port_buffer.c (the formula of the headroom); NVIDIA MLNX_OFED
documentation, mlnx_qos.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import buffers_after_boot
from railbed.check.shared.buffers import BufferPolicy, headroom, lossless_buffers, receive_buffers, set_buffers
from railbed.check.shared.card import CARD_PROBES, Ability, Card, card_of
from railbed.check.shared.port import first_of, no_pfc, no_rdma
from railbed.check.shared.qos import pfc_priorities
from railbed.probes import dcb_buffer, dcb_pfc, ethtool, mlnx_qos
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the buffer of the policy's priority: who else uses it, and its size."""
    lossless = port.policy.priority
    expected = f"a receive buffer for priority {lossless} alone"
    card = card_of(port)
    if lacking := card.lacks(Ability.BUFFERS):
        yield skip(lacking, expected=expected)
        return
    buffers = receive_buffers(port)
    if isinstance(buffers, str):
        yield _not_shown(buffers, expected)
    elif _is_automatic(port, card):
        yield skip("the firmware assigns a buffer once PFC is on; see pfc", expected=expected)
    else:
        yield _judge_buffers(port, buffers, expected, card)


def _judge_buffers(port: PortView, buffers: BufferPolicy, expected: str, card: Card) -> Judgement:
    lossless, needed = port.policy.priority, headroom(port, buffers)
    number, size = buffers.prio_buffer[lossless], buffers.size(lossless)
    problems = []
    if others := buffers.sharing(lossless):
        problems.append(f"priority {lossless} shares buffer {number} with {', '.join(map(str, others))}")
    elif size < needed:
        problems.append(f"buffer {number} of priority {lossless} has {_kilobytes(size)}, not {_kilobytes(needed)}")
    if problems:
        wanted = lossless_buffers(buffers, lossless, needed)
        fix = set_buffers(port, buffers, wanted) if wanted else None
        return warn(expected=expected, observed="; ".join(problems), fix=fix)
    right = ok(expected=expected, observed=f"buffer {number}{f', {_kilobytes(size)}' if size else ''}")
    fix = set_buffers(port, buffers, buffers)
    return survives(right, buffers_after_boot(port, RULE.name, fix, is_automatic=card.family == "mlx5"), fix)


def _is_automatic(port: PortView, card: Card) -> bool:
    if card.family != "mlx5":
        return False
    enabled = pfc_priorities(port)
    return not isinstance(enabled, str) and port.policy.priority not in enabled


def _not_shown(reason: str, expected: str) -> Judgement:
    if reason.startswith("dcb:"):
        return skip(f"the driver does not show its receive buffers ({reason})", expected=expected)
    return unknown(expected=expected, observed=reason)


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.0f} kB"


RULE = Rule(
    name="buffers",
    title="a receive buffer of its own for lossless traffic",
    scope="port",
    needs=(dcb_buffer.PROBE, dcb_pfc.PROBE, mlnx_qos.PROBE, ethtool.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_pfc),
    doc=__doc__,
    rank=130,
)
