"""The BMC of every node that has one answers.

What
----
A login to each BMC of the cluster file: over HTTPS with a certificate that is pinned or verified, or as an IPMI
session.

Why
---
A node that died in the middle of a training answers nothing: only its BMC can say whether it has power, what failed,
and switch it on again. Training itself does not need the BMC, so this is never more than a warning.

Fix
---
Look at the address, account and certificate under `bmc:` in the cluster file. A BMC that has hung itself is restarted
from the node with `ipmitool mc reset cold`, which does not disturb the node.

Source
------
DMTF, Redfish Specification (DSP0266); Intel and others, IPMI 2.0 specification.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import BmcView
from railbed.probes.bmc import power
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule

EXPECTED = "an answer"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge whether a BMC answered."""
    if bmc.facts.failure is not None:
        yield warn(bmc.facts.failure.reason, expected=EXPECTED, remedy=bmc.facts.failure.remedy)
        return
    bmc.read(power.PROBE)
    yield ok(expected=EXPECTED, observed=f"answers over {'IPMI' if bmc.bmc.uses_ipmi else 'Redfish'}")


RULE = Rule(
    name="bmc_reachable",
    title="the BMC of every node answers",
    scope="BMC",
    stage="power",
    needs=(power.PROBE,),
    judge=judge,
    doc=__doc__,
)
