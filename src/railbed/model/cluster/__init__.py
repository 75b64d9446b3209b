"""The cluster as it should be: parts of the cluster file, and the values that they have. Read `cluster.py` first."""

from railbed.model.cluster.bmc import Bmc, BmcAccess, bmc_name
from railbed.model.cluster.cluster import (
    LOCAL_HOST,
    Cluster,
    DeviceKind,
    Gpu,
    Hca,
    Node,
    Nxapi,
    Policy,
    Port,
    Rail,
    Switch,
    SwitchPort,
    Training,
)
from railbed.model.cluster.login import Login, Secret
from railbed.model.cluster.part import Part
from railbed.model.cluster.values import Host, Mtu, Name, Number, SwitchPortName, TcpPort, Text, Whole

__all__ = [
    "LOCAL_HOST",
    "Bmc",
    "BmcAccess",
    "Cluster",
    "DeviceKind",
    "Gpu",
    "Hca",
    "Host",
    "Login",
    "Mtu",
    "Name",
    "Node",
    "Number",
    "Nxapi",
    "Part",
    "Policy",
    "Port",
    "Rail",
    "Secret",
    "Switch",
    "SwitchPort",
    "SwitchPortName",
    "TcpPort",
    "Text",
    "Training",
    "Whole",
    "bmc_name",
]
