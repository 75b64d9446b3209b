"""Settings of one line each, global and per interface, as a table: pattern, default, and where they exist."""

from __future__ import annotations

from dataclasses import dataclass

from switchlab.nexus.model.config import Interface

SWITCHED = ("ethernet", "port-channel")
EVERYWHERE = ("ethernet", "port-channel", "mgmt", "vlan", "loopback")
BOTH = ("n9k", "n5k")


@dataclass(frozen=True, slots=True)
class Setting:
    """A line that is either set or at its default.

    `key_words` is how many words of the pattern name the setting; what follows is its value.
    A `switch` has no value: the line itself or its `no` form is stored.
    """

    pattern: str
    key_words: int
    default: str = ""
    kinds: tuple[str, ...] = ()
    families: tuple[str, ...] = BOTH
    feature: str | None = None
    qos: bool = False
    switch: bool = False

    @property
    def key(self) -> str:
        return " ".join(self.pattern.split()[: self.key_words])

    @property
    def no_pattern(self) -> str:
        head, tail = self.key, " ".join(self.pattern.split()[self.key_words :])
        return f"no {head} [{tail}]" if tail else f"no {head}"

    def default_on(self, interface: Interface) -> str:
        if self.key == "shutdown":
            return "shutdown" if interface.kind == "vlan" else "no shutdown"
        return self.default if self.key != "switchport" or interface.kind in SWITCHED else ""


PFC = "priority-flow-control"
INTERFACE_SETTINGS = (
    Setting("description <text:line>", 1, kinds=EVERYWHERE),
    Setting("switchport", 1, "switchport", kinds=SWITCHED, switch=True),
    Setting("switchport mode (access|trunk)", 2, "switchport mode access", kinds=SWITCHED),
    Setting("switchport access vlan <vlan:1-4094>", 3, "switchport access vlan 1", kinds=SWITCHED),
    Setting("switchport trunk native vlan <vlan:1-4094>", 4, "switchport trunk native vlan 1", kinds=SWITCHED),
    Setting("switchport trunk allowed vlan <vlans:*1-4094>", 4, "switchport trunk allowed vlan 1-4094", kinds=SWITCHED),
    Setting(f"{PFC} mode (auto|on|off)", 2, f"{PFC} mode auto", kinds=SWITCHED, qos=True),
    Setting(f"{PFC} watch-dog-interval (on|off)", 2, f"{PFC} watch-dog-interval off", SWITCHED, ("n9k",), qos=True),
    Setting(f"{PFC} watch-dog interface-multiplier <n:1-10>", 3, "", ("ethernet",), ("n9k",), qos=True),
    Setting("flowcontrol receive (on|off)", 2, "flowcontrol receive off", kinds=SWITCHED),
    Setting("flowcontrol send (on|off)", 2, "flowcontrol send off", kinds=SWITCHED),
    Setting("spanning-tree port type (edge|edge trunk|network|normal)", 3, "spanning-tree port type normal", SWITCHED),
    Setting("mtu <mtu:576-9216>", 1, "mtu 1500", ("ethernet", "port-channel", "mgmt", "vlan"), ("n9k",)),
    Setting("speed (auto|100|1000|10000|25000|40000|50000|100000|200000|400000)", 1, "speed auto", SWITCHED),
    Setting("fec (auto|fc-fec|rs-fec|off)", 1, "fec auto", ("ethernet",), ("n9k",)),
    Setting("lldp transmit", 2, "lldp transmit", ("ethernet", "mgmt"), feature="lldp", switch=True),
    Setting("lldp receive", 2, "lldp receive", ("ethernet", "mgmt"), feature="lldp", switch=True),
    Setting("channel-group <channel:1-4096> [force] [mode (active|on|passive)]", 1, kinds=("ethernet",)),
    Setting("ip address <address:long>", 2, kinds=("ethernet", "mgmt", "vlan", "loopback")),
    Setting("shutdown", 1, "no shutdown", EVERYWHERE, switch=True),
)
GLOBAL_SETTINGS = (
    Setting("hostname <name:long>", 1, "hostname switch"),
    Setting("ip domain-lookup", 2, "ip domain-lookup", switch=True),
    Setting("system jumbomtu <mtu:1500-9216>", 2, "system jumbomtu 9216", families=("n9k",)),
    Setting("hardware access-list tcam region <region:name> <size:0-8192>", 5, families=("n9k",)),
    Setting("hardware qos nodrop-queue-thresholds queue-green <cells:52-13312>", 4, families=("n9k",), qos=True),
    Setting("congestion-control random-detect forward-nonecn", 3, families=("n9k",), qos=True),
    Setting(f"{PFC} watch-dog-interval (on|off)", 2, f"{PFC} watch-dog-interval off", families=("n9k",), qos=True),
    Setting(f"{PFC} watch-dog interval <ms:100-1000>", 3, f"{PFC} watch-dog interval 100", families=("n9k",), qos=True),
    Setting(
        f"{PFC} watch-dog shutdown-multiplier <n:1-10>",
        3,
        f"{PFC} watch-dog shutdown-multiplier 1",
        families=("n9k",),
        qos=True,
    ),
    Setting(
        f"{PFC} auto-restore multiplier <n:0-100>", 3, f"{PFC} auto-restore multiplier 10", families=("n9k",), qos=True
    ),
    Setting(
        f"{PFC} fixed-restore multiplier <n:0-100>", 3, f"{PFC} fixed-restore multiplier 0", families=("n9k",), qos=True
    ),
    Setting("copp profile (dense|lenient|moderate|strict)", 2, "copp profile strict"),
    Setting("lldp timer <seconds:5-254>", 2, "lldp timer 30", feature="lldp"),
    Setting("lldp holdtime <seconds:10-255>", 2, "lldp holdtime 120", feature="lldp"),
    Setting("nxapi http port <port:1024-65535>", 3, feature="nxapi"),
    Setting("nxapi https port <port:1024-65535>", 3, feature="nxapi"),
    Setting("boot nxos <image:text>", 2),
)
