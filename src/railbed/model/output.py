"""What one command printed on one device, before it is parsed."""

from __future__ import annotations

from dataclasses import dataclass

MAX_OUTPUT_BYTES = 4 * 2**20
"""Commands that print more than this are cut off; no probe needs as much."""
MAX_LINE_BYTES = 64 * 1024
"""Twice the longest line known: `ss` listing a thousand processes that share a socket. JSON is exempt."""
COMPLAINT_CHARS = 400
LATE = "did not finish within"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Raw bytes of one command, and when it was sent and ended."""

    device: str
    key: str
    """Name of the probe, or another label, under which the output is stored."""
    command: str
    stdout: bytes
    stderr: bytes = b""
    exit: int | None
    """Exit status; None if the command did not end."""
    sent: float
    """Our clock just before the command was sent (seconds since the epoch)."""
    received: float
    """Our clock when the end of the output was read."""
    truncated: bool = False
    """The device printed more than is stored."""
    failure: str = ""
    """Why the command did not end, in words."""

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 become the replacement character."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The first line on standard error, where most tools explain a failure; shortened if it is long."""
        lines = self.stderr.lstrip()[: 4 * COMPLAINT_CHARS].decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip()[:COMPLAINT_CHARS] if lines else ""

    @property
    def ran_late(self) -> bool:
        """Whether the command did not end in time."""
        return self.failure.startswith(LATE)

    def excess(self, *, one_line: bool = False) -> str:
        """Return why it is too long to parse, as the end of a sentence; with `one_line`, lines have no limit."""
        if self.truncated or len(self.stdout) > MAX_OUTPUT_BYTES:
            return f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB"
        if not one_line and max(map(len, self.stdout.split(b"\n"))) > MAX_LINE_BYTES:
            return f"printed a line of more than {MAX_LINE_BYTES // 1024} KiB"
        return ""

    @property
    def trouble(self) -> str:
        """Why it failed: the best description available."""
        return self.complaint or self.failure or f"exit {self.exit}"
