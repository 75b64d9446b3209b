"""Redfish resources: JSON objects, and the links in them that lead to others of the same server."""

from __future__ import annotations

import re
from collections.abc import Iterator

Resource = dict[str, object]
ROOT = "/redfish/v1/"
OWN_PATH = re.compile(r"/redfish/[!-\"$-~]{0,1000}")
"""An absolute path of the same server, in ASCII without spaces, so that it fits a request; no fragment."""
MAX_LINKS = 400


def is_own_path(path: str) -> bool:
    """Whether a link leads to another resource of the same server."""
    return OWN_PATH.fullmatch(path) is not None and ".." not in path


def link_of(value: object) -> str | None:
    """Return where a link leads; None if it is not a link within the server."""
    path = value.get("@odata.id") if isinstance(value, dict) else None
    return path if isinstance(path, str) and is_own_path(path) else None


def links_of(resource: Resource, name: str) -> Iterator[tuple[str, Resource | None]]:
    """Yield where a property leads, with the resource itself if it is written in place of a link.

    A collection has many members; a log mostly writes its entries in place.
    """
    value = resource.get(name)
    for item in (value if isinstance(value, list) else [value])[:MAX_LINKS]:
        if path := link_of(item):
            yield path, item if isinstance(item, dict) and len(item) > 1 else None


def next_page(resource: Resource, name: str) -> str | None:
    """Return where a long collection continues."""
    path = resource.get(f"{name}@odata.nextLink")
    return path if isinstance(path, str) and is_own_path(path) else None
