"""PCI addresses, as ESXi writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-1][0-9a-f])\.([0-7])")


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `0000:18:00.1`; raise ValueError on anything else."""
        match = ADDRESS.fullmatch(text.lower())
        if match is None:
            raise ValueError(f"{text!r} is not a PCI address such as 0000:18:00.1")
        return cls(*(int(part, 16) for part in match.groups()))

    def after(self, functions: int) -> PciAddress:
        """Return the address so many functions further, which may be on the next device or bus."""
        number = (self.bus << 8 | self.device << 3 | self.function) + functions
        return PciAddress(self.domain, number >> 8 & 0xFF, number >> 3 & 0x1F, number & 7)

    @property
    def is_first(self) -> bool:
        """Whether it is the first function of its device."""
        return self.function == 0

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function}"

    @property
    def with_colons(self) -> str:
        """As `esxcli network nic get` writes it: `0000:18:00:1`."""
        return str(self).replace(".", ":")

    @property
    def decimal(self) -> str:
        """As `esxcli network sriovnic vf list` writes it before 8.0 U3: `00000:024:00.1`."""
        return f"{self.domain:05d}:{self.bus:03d}:{self.device:02d}.{self.function}"
