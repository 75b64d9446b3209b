"""The links of NVIDIA's cards have few bit errors, and the card sees nothing wrong.

What
----
`mlxlink` shows, on InfiniBand and on Ethernet, the share of bits that arrive wrong before FEC (at most 1e-5), the
share that FEC did not correct (at most 1e-12), and what the card advises about a link that does not work. Skipped if
the tool is not installed, and on virtual functions, which have no link of their own.

Why
---
Bit errors that FEC does not correct are packets that RDMA sends again, on one link of hundreds: the all-reduce waits
for it every time. The rates are those of all the time since the card began to count, so they also show what two
readings of a counter, a second apart, do not.

Fix
---
Clean and reseat, then replace, the cable or module. If the card gives advice (`Recommendation`), follow that first. To
count anew after a repair: `mlxlink -d DEVICE -p 1 --pc`.

Source
------
NVIDIA MFT documentation, mlxlink utility; the limits are those of Oracle's published health check for RDMA links.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_rdma, rdma_device, rdma_name
from railbed.probes import infiniband, mlxlink
from railbed.probes.mlxlink import LinkQuality
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "raw bit error rate up to 1e-05, none after FEC"
MOST_RAW, MOST_EFFECTIVE = 1e-5, 1e-12
ACTIVE = "Active"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at what the card measures."""
    ports = port.read(mlxlink.PROBE).ports
    device = rdma_device(port)
    quality = ports.get(f"{device.pci}/{port.port.rdma_port}") if device and device.pci else None
    if not ports:
        yield skip("no mlxlink on this node, or no card that it can read", expected=EXPECTED)
    elif quality is None:
        yield skip(f"mlxlink does not read {rdma_name(port)}", expected=EXPECTED)
    elif quality.problem:
        yield skip(f"mlxlink: {quality.problem}", expected=EXPECTED)
    else:
        yield _judge_quality(quality)


def _judge_quality(quality: LinkQuality) -> Judgement:
    evidence = (
        f"{quality.state}, {quality.speed}, FEC {quality.fec}, counting for {quality.minutes} minutes, "
        f"link went down {quality.link_downs} times"
    )
    remaining = quality.symbol_ber if quality.effective_ber is None else quality.effective_ber
    if quality.advice:
        return warn(quality.advice, expected=EXPECTED, evidence=evidence, remedy=f"the card advises: {quality.advice}")
    if quality.state != ACTIVE:
        return skip("no link: see link_up", expected=EXPECTED)
    if remaining is not None and remaining > MOST_EFFECTIVE:
        return fail(f"{remaining:.1e} of all bits are wrong after FEC", expected=EXPECTED, evidence=evidence)
    if quality.raw_ber is not None and quality.raw_ber > MOST_RAW:
        return warn(f"{quality.raw_ber:.1e} of all bits are wrong before FEC", expected=EXPECTED, evidence=evidence)
    if quality.raw_ber is None and remaining is None:
        return unknown(expected=EXPECTED, observed="mlxlink shows no bit error rate", evidence=evidence)
    shown = [f"{rate:.1e} {when} FEC" for rate, when in ((quality.raw_ber, "before"), (remaining, "after")) if rate]
    return ok(expected=EXPECTED, observed=", ".join(shown) or "no bit errors", evidence=evidence)


RULE = Rule(
    name="bit_error_rate",
    title="few bit errors on the link",
    scope="RDMA port",
    stage="cabling",
    needs=(mlxlink.PROBE, infiniband.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
