"""TCP offloads are on at the rail interfaces.

What
----
`ethtool -k` shows segmentation (TSO), receive merging (GRO) and checksums in both directions on. Offloads that a card
does not support (`off [fixed]`) are left out. It is a warning if the configuration of a network service
turns one off at boot.

Why
---
RDMA needs none of them, but other traffic does: the data set over NFS, checkpoints, Gloo, and NCCL when it
falls back to sockets. Without offloads one core is soon the limit, far below the speed of the link, and the data
loader starves the GPUs.

Fix
---
`ethtool -K IF tso on gro on rx on tx on`. Look for a tuning script or a driver option that turned them off: advice
for routers and packet capture often does.

Source
------
Linux kernel documentation, segmentation offloads; ethtool(8).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import offloads_after_boot
from railbed.check.shared.port import no_interface
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import ethtool_features
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

WANTED = {
    "tcp-segmentation-offload": "tso",
    "generic-receive-offload": "gro",
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
}


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the few offloads that TCP depends on."""
    netdev = port.port.netdev
    features = port.read(ethtool_features.PROBE).interfaces.get(netdev)
    if features is None:
        yield no_interface(netdev)
        return
    known = {name: features[name] for name in WANTED if name in features}
    able = {name: feature for name, feature in known.items() if feature.on or not feature.fixed}
    off = [name for name, feature in able.items() if not feature.on]
    expected = f"{', '.join(WANTED[name] for name in able)} on"
    if not able:
        yield skip("the interface has none of these offloads")
    elif off:
        flags = [WANTED[name] for name in off]
        yield warn(expected=expected, observed=f"{', '.join(flags)} off", fix=_fix(port, flags))
    else:
        flags = [WANTED[name] for name, feature in able.items() if not feature.fixed]
        right, fix = ok(expected=expected, observed="all on"), _fix(port, flags)
        yield survives(right, offloads_after_boot(port, RULE.name, fix, flags), fix) if flags else right


def _fix(port: PortView, flags: Sequence[str]) -> Fix:
    def command(state: str) -> str:
        return f"ethtool -K {shlex.quote(port.port.netdev)} {' '.join(f'{flag} {state}' for flag in flags)}"

    return Fix(
        device=port.node.name,
        apply=as_steps(command("on")),
        undo=as_steps(command("off")),
        persistence=Persistence.BOOT,
    )


RULE = Rule(
    name="offloads",
    title="TCP offloads are on",
    scope="port",
    needs=(ethtool_features.PROBE, *BOOT_PROBES),
    judge=judge,
    doc=__doc__,
)
