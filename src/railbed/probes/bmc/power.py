"""Whether a machine is on, by its BMC (`ipmitool chassis status`, Redfish `Systems`)."""

from __future__ import annotations

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.bmc import ipmi, redfish
from railbed.parsing.bmc.facts import BmcPower


def command(cluster: Cluster, device: str) -> str:
    """Return the words of ipmitool, or the paths of links."""
    _, bmc = cluster.bmcs()[device]
    return "chassis status" if bmc.uses_ipmi else "Systems/Members"


def parse(text: str) -> BmcPower:
    """Read either form."""
    return redfish.parse_system(text) if redfish.is_redfish(text) else ipmi.parse_chassis(text)


PROBE = Probe(
    name="bmc_power",
    title="power and faults, from the BMC",
    command=command,
    parse=parse,
    facts=BmcPower,
    runs_on="bmc",
    timeout=25.0,
    one_line=True,
)
