"""What one command printed on one device, before anyone understood it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Raw bytes of one command, with the moments between which it ran."""

    device: str
    key: str
    """Name of the probe, or another label, under which the output is kept."""
    command: str
    stdout: bytes
    stderr: bytes = b""
    exit: int | None
    """Exit status; None when the command did not end."""
    sent: float
    """Our clock just before the device was asked (seconds since the epoch)."""
    received: float
    """Our clock when the end of the output was read."""
    truncated: bool = False
    """The device printed more than is kept."""
    failure: str = ""
    """Why the command did not end, in words."""

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 become the replacement character."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The first line on standard error, which is what most tools say when they fail."""
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip() if lines else ""

    @property
    def trouble(self) -> str:
        """Why it did not do its work, in the best words there are."""
        return self.complaint or self.failure or f"exit {self.exit}"
