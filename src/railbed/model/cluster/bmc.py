"""The BMC of a node: the small computer on its board that stays on while the node is off, and can switch it on."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from railbed.model.cluster.login import Secret
from railbed.model.cluster.part import Part
from railbed.model.cluster.values import Fingerprint, Host, TcpPort, Text

IPMI_PORT, REDFISH_PORT = 623, 443
BMC_SUFFIX = ":bmc"
"""No node or switch can have a name that ends with it."""


def bmc_name(node: str) -> str:
    """Return the name of a node's BMC as a device: in findings, records and recordings."""
    return f"{node}{BMC_SUFFIX}"


class BmcAccess(Part):
    """How BMCs are reached, for all nodes. Nothing of it is taken from the cluster's `login`."""

    access: Literal["redfish", "ipmi"] | None = None
    """Redfish over HTTPS, or IPMI 2.0 through ipmitool on this machine; when not given, Redfish."""
    port: TcpPort | None = None
    """HTTPS port of Redfish (443), or UDP port of IPMI (623)."""
    user: Text | None = None
    """Account on the BMC."""
    password: Secret | None = None
    """Where to find its password."""
    jump: Text | None = None
    """Jump host for Redfish, as `[user@]host[:port]`; IPMI cannot use one."""
    ca: Text | None = None
    """For Redfish: file with the certificates of the authorities to trust, in place of this machine's."""
    cipher_suite: Literal[3, 17] | None = None
    """For IPMI: cipher suite of the session, 17 (SHA-256) or 3 (SHA-1); when not given, the best on offer."""


class Bmc(BmcAccess):
    """The BMC of a node, as far as it differs from the cluster's `bmc`."""

    host: Host
    """Its address or name."""
    fingerprint: Fingerprint | None = None
    """For Redfish: fingerprint of the only certificate to accept, whoever signed it; BMCs mostly sign their own."""

    system: Text | None = None
    """For Redfish: the `Id` of the node among the systems of the BMC, if it has several."""

    @model_validator(mode="after")
    def _one_way_to_trust(self) -> Bmc:
        if self.ca is not None and self.fingerprint is not None:
            raise ValueError("give ca or fingerprint, not both")
        return self

    def over(self, default: BmcAccess) -> Bmc:
        """Return this BMC, completed from the cluster's `bmc`; a fingerprint replaces the authorities."""
        shared = default.model_dump(exclude_none=True)
        if self.fingerprint is not None:
            shared.pop("ca", None)
        return Bmc(**{**shared, **self.model_dump(exclude_none=True)})

    @property
    def uses_ipmi(self) -> bool:
        """Whether it is reached over IPMI."""
        return self.access == "ipmi"

    @property
    def open_port(self) -> int:
        """The port that it listens on."""
        return self.port or (IPMI_PORT if self.uses_ipmi else REDFISH_PORT)
