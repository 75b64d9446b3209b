"""Every power supply of a node works.

What
----
What the BMC reports about each power supply: a failure, an input without power, values out of range.

Why
---
With one of two supplies a machine keeps running, but many servers then halve the power of processors and GPUs; the
next failure, or one tripped breaker, takes the node out of the training.

Fix
---
Look at the lamp of the supply and at its cable and circuit; replace it while the other one carries the machine.

Source
------
Intel and others, IPMI 2.0 specification, sensor type Power Supply (08h); DMTF, PowerSupply (`Status.Health`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import BmcView
from railbed.model.text import plural
from railbed.parsing.bmc.wording import describe_sensors
from railbed.probes.bmc import sensors
from railbed.rules.judgement import Judgement, fail, ok, skip, warn
from railbed.rules.rule import Rule

EXPECTED = "every power supply works"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge the power supplies; an empty bay is not a fault."""
    supplies = [sensor for sensor in bmc.read(sensors.PROBE).sensors if sensor.kind == "power supply"]
    judged = [supply for supply in supplies if supply.state in ("ok", "warning", "critical")]
    bad = [supply for supply in judged if supply.state == "critical"]
    doubtful = [supply for supply in judged if supply.state == "warning"]
    if bad:
        yield fail(describe_sensors([*bad, *doubtful]), expected=EXPECTED)
    elif doubtful:
        yield warn(describe_sensors(doubtful), expected=EXPECTED)
    elif not judged:
        yield skip("the BMC reports no power supply", expected=EXPECTED)
    else:
        yield ok(expected=EXPECTED, observed=f"{plural(len(judged), 'sensor')} of power supplies without a fault")


RULE = Rule(
    name="bmc_power_supply",
    title="every power supply works",
    scope="BMC",
    needs=(sensors.PROBE,),
    judge=judge,
    doc=__doc__,
)
