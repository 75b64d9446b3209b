"""Who may log in to an emulated device."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(kw_only=True)
class Logins:
    """Who may log in: users with passwords, and a file of public keys that are accepted for all of them."""

    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    authorized_keys: Path | None = None

    def check(self, user: str, password: str) -> bool:
        expected = self.passwords.get(user, "")
        return bool(expected) and hmac.compare_digest(expected.encode(), password.encode())
