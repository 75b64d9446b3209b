"""The sensors of a machine, by its BMC (`ipmitool sdr elist`, Redfish `Thermal`, `Power`, `Sensors`)."""

from __future__ import annotations

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.bmc import ipmi, redfish
from railbed.parsing.bmc.facts import BmcSensors

LINKS = """\
Chassis/Members/Thermal or Chassis/Members/Sensors/Members
Chassis/Members/Power or Chassis/Members/PowerSubsystem/PowerSupplies/Members"""
"""The older resources have everything in two answers; newer BMCs have one for each sensor instead."""


def command(cluster: Cluster, device: str) -> str:
    """Return the words of ipmitool, or the paths of links."""
    _, bmc = cluster.bmcs()[device]
    return "sdr elist" if bmc.uses_ipmi else LINKS


def parse(text: str) -> BmcSensors:
    """Read either form."""
    return redfish.parse_sensors(text) if redfish.is_redfish(text) else ipmi.parse_sensors(text)


PROBE = Probe(
    name="bmc_sensors",
    title="temperatures, fans, voltages and power supplies, from the BMC",
    command=command,
    parse=parse,
    facts=BmcSensors,
    runs_on="bmc",
    timeout=30.0,
    one_line=True,
)
