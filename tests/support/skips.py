"""Which skips are failures where tests are required (RAILBED_REQUIRE), as in CI: all that nobody decided on."""

from __future__ import annotations

import os
import re
from collections.abc import Set as AbstractSet

KINDS = frozenset({"ssh", "netns", "vm", "browser", "prometheus", "tshark", "shared"})
"""Marks of tests that need programs, rights or files that not every machine has; RAILBED_REQUIRE names those that this
one must have."""
MAY_SKIP = {
    "root may read everything": "CI is root, as labs need it",
    "this processor has bf16": "the test is about processors without",
    "torch is not a build for processors alone": "the test is about such a build",
    "nothing is locked for .*": "another processor or Python than those that releases are for",
    "needs namespaces for ordinary users": "the kernel of some hosts forbids them, also in a container",
    "needs a file system with ACLs": "that of the temporary folder may have none",
    "no access lists here: .*": "the same",
    "there is no Python 3.10": "few machines have the oldest Python of nodes; the source is checked everywhere",
    "this is not a clone": "a source archive has no list of files to compare with",
}
"""Reasons, as regular expressions, for which a test may be skipped everywhere, and why."""


def refusal(reason: str, marks: AbstractSet[str]) -> str:
    """Return why a test must not be skipped; empty if it may be."""
    required = {name for name in os.environ.get("RAILBED_REQUIRE", "").split(",") if name}
    if not required or any(re.fullmatch(allowed, reason) for allowed in MAY_SKIP):
        return ""
    kinds = marks & KINDS
    if kinds and not kinds & required and "all" not in required:
        return ""
    because = f"RAILBED_REQUIRE={','.join(sorted(required))} requires it" if kinds else "MAY_SKIP has no such reason"
    return f"skipped, but {because}: {reason}"
