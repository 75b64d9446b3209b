"""The event log of a machine, by its BMC (`ipmitool sel elist`, Redfish `LogServices`)."""

from __future__ import annotations

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.bmc import ipmi, redfish
from railbed.parsing.bmc.facts import BmcLog

ENTRIES = "Members/LogServices/Members/Entries"
LINKS = f"""\
Systems/{ENTRIES} or Managers/{ENTRIES}
Systems/{ENTRIES}/Members or Managers/{ENTRIES}/Members"""
"""The log itself, to tell one without entries from none, and then entries that it does not have in place."""


def command(cluster: Cluster, device: str) -> str:
    """Return the words of ipmitool, or the paths of links."""
    _, bmc = cluster.bmcs()[device]
    return "sel elist last 200" if bmc.uses_ipmi else LINKS


def parse(text: str) -> BmcLog:
    """Read either form."""
    return redfish.parse_log(text) if redfish.is_redfish(text) else ipmi.parse_log(text)


PROBE = Probe(
    name="bmc_log",
    title="event log, from the BMC",
    command=command,
    parse=parse,
    facts=BmcLog,
    runs_on="bmc",
    timeout=30.0,
    one_line=True,
)
