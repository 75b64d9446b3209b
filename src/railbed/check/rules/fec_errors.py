"""FEC corrects what the link gets wrong, without being overwhelmed.

What
----
Between two readings of `ethtool -I --show-fec` and `ethtool -S`, no block arrives that FEC could not correct, and the
share of bits that it corrects stays below 1 in 100 000.

Why
---
With FEC every link of 25G and more has bit errors, and corrects them: corrected counts that grow are normal. A block
with too many errors is lost with all packets in it, and RDMA sends them again. The share of corrected bits rises before
that happens, so it shows a cable that is about to fail while training still runs at full speed.

Fix
---
Clean and reseat, then replace, the cable or module. If both ends of the link have been replaced, the port of the card
or switch is left.

Source
------
ethtool(8), `--show-fec` with `-I`; Linux kernel documentation, mlx5 counters (`rx_corrected_bits_phy`,
`rx_pcs_symbol_err_phy`); the limit is that of Oracle's published health check for RDMA links (raw bit error rate 1e-5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.check.shared.port import no_interface
from railbed.model.text import plural
from railbed.probes import ethtool, ethtool_fec, ethtool_stats, ip_link
from railbed.probes.ethtool_fec import Fec, FecSettings
from railbed.probes.ethtool_stats import DriverStatistics
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "FEC corrects all errors, and few"
MOST = 1e-5
"""The share of bits that may be wrong before FEC."""
UNCORRECTED = ("rx_pcs_symbol_err_phy", "rx_fec_uncorrectable_blocks", "rx_pcs_symbol_err")
CORRECTED_BITS = ("rx_corrected_bits_phy", "rx_corrected_bits")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Counters of one reading; None if there is none."""

    uncorrected: int | None
    bits: int | None
    blocks: int | None


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare two readings."""
    netdev = port.port.netdev
    if netdev not in port.read(ip_link.PROBE).links:
        yield no_interface(netdev)
        return
    before = _counts(port.read(ethtool_fec.PROBE), port.node.try_read(ethtool_stats.PROBE), netdev)
    if before == _Counts(uncorrected=None, bits=None, blocks=None):
        yield skip("the card counts nothing about FEC", expected=EXPECTED)
        return
    after = _counts(port.node.again(ethtool_fec.PROBE), port.node.try_again(ethtool_stats.PROBE), netdev)
    yield _compare(port, before, after)


def _compare(port: PortView, before: _Counts, after: _Counts) -> Judgement:
    evidence = f"not corrected {after.uncorrected}, corrected bits {after.bits}, corrected blocks {after.blocks}"
    lost = _growth(before.uncorrected, after.uncorrected)
    if lost:
        return fail(f"{plural(lost, 'block')} could not be corrected", expected=EXPECTED, evidence=evidence)
    share = _share(port, before, after)
    if share is not None and share > MOST:
        return warn(f"{share:.1e} of all bits are corrected", expected=EXPECTED, evidence=evidence)
    if lost is None and share is None:
        return unknown(expected=EXPECTED, observed="the counters of FEC could not be compared", evidence=evidence)
    observed = "nothing was lost" if share is None else f"nothing was lost, {share:.1e} of all bits are corrected"
    return ok(expected=EXPECTED, observed=observed, evidence=evidence)


def _counts(facts: Fec, statistics: DriverStatistics | None, netdev: str) -> _Counts:
    settings = facts.interfaces.get(netdev, FecSettings())
    counters = statistics.interfaces.get(netdev) if statistics else None
    values = counters.values if counters else {}
    bits = [settings.corrected_bits, *(values.get(name) for name in CORRECTED_BITS)]
    lost = [settings.uncorrectable_blocks, *(values.get(name) for name in UNCORRECTED)]
    return _Counts(
        uncorrected=next((value for value in lost if value is not None), None),
        bits=next((value for value in bits if value is not None), None),
        blocks=settings.corrected_blocks,
    )


def _growth(before: int | None, after: int | None) -> int | None:
    """Return by how much a counter grew; a counter that fell was reset."""
    return None if before is None or after is None or after < before else after - before


def _share(port: PortView, before: _Counts, after: _Counts) -> float | None:
    """Return the share of bits that were corrected. A link sends all the time, whether or not it has packets."""
    first, second = port.node.outputs(ethtool_fec.PROBE)
    settings = port.node.try_read(ethtool.PROBE)
    own = settings.interfaces.get(port.port.netdev) if settings else None
    seconds = second.received - first.received
    if own is None or not own.speed_mbps or seconds <= 0:
        return None
    sent = own.speed_mbps * 1e6 * seconds
    bits = _growth(before.bits, after.bits)
    if bits is None:
        # Most blocks with an error have a single one.
        bits = _growth(before.blocks, after.blocks)
    return None if bits is None else bits / sent


RULE = Rule(
    name="fec_errors",
    title="FEC corrects all errors",
    scope="port",
    stage="cabling",
    needs=(ethtool_fec.PROBE, ethtool_stats.PROBE, ethtool.PROBE, ip_link.PROBE),
    judge=judge,
    doc=__doc__,
)
