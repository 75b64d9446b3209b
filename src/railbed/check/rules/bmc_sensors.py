"""No sensor of a node is outside its limits.

What
----
Temperatures, fans, voltages and what else the BMC measures, by the limits that the maker of the machine has set
there. Power supplies have a rule of their own.

Why
---
A machine that is too hot slows its processors and GPUs down, and with them every rank that waits for theirs; at the
next limit it switches itself off in the middle of a step.

Fix
---
Look at fans, dust, filters, blanking panels and the temperature of the room; a voltage outside its limits means a
power supply or a board that is failing.

Source
------
Intel and others, IPMI 2.0 specification, sensor thresholds; DMTF, Thermal and Sensor (`Status.Health`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import BmcView
from railbed.model.text import plural
from railbed.parsing.bmc.wording import describe_sensors
from railbed.probes.bmc import sensors
from railbed.rules.judgement import Judgement, fail, ok, skip, warn
from railbed.rules.rule import Rule

EXPECTED = "sensors within their limits"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge all sensors but those of power supplies."""
    all_sensors = [sensor for sensor in bmc.read(sensors.PROBE).sensors if sensor.kind != "power supply"]
    judged = [sensor for sensor in all_sensors if sensor.state in ("ok", "warning", "critical")]
    bad = [sensor for sensor in judged if sensor.state == "critical"]
    doubtful = [sensor for sensor in judged if sensor.state == "warning"]
    if bad:
        yield fail(describe_sensors([*bad, *doubtful]), expected=EXPECTED)
    elif doubtful:
        yield warn(describe_sensors(doubtful), expected=EXPECTED)
    elif not judged:
        yield skip("the BMC has no sensor with limits", expected=EXPECTED)
    else:
        yield ok(expected=EXPECTED, observed=f"{plural(len(judged), 'sensor')} within limits")


RULE = Rule(
    name="bmc_sensors",
    title="no sensor is outside its limits",
    scope="BMC",
    needs=(sensors.PROBE,),
    judge=judge,
    doc=__doc__,
)
