"""The first file system of a node: busybox, the modules that the root disk needs, and a script."""

from __future__ import annotations

import gzip
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from railbed.lab.vm.recipe import BOOT_MODULES, HERE
from railbed.lab.vm.rootfs import dependencies, kernel_release

TRAILER = "TRAILER!!!"


def make_initrd(root: Path) -> bytes:
    """Return the compressed archive."""
    modules = root / "usr/lib/modules" / kernel_release(root)
    order = load_order(dependencies(modules))
    entries: list[tuple[str, int, bytes]] = [(name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "modules")]
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes()))
    entries.append(("init", stat.S_IFREG | 0o755, (HERE / "initrd-init").read_bytes()))
    entries += [(f"modules/{_file(path)}", stat.S_IFREG | 0o644, (modules / path).read_bytes()) for path in order]
    lines = "".join(f"{_file(path)}\n" for path in order)
    entries.append(("modules/order", stat.S_IFREG | 0o644, lines.encode()))
    return gzip.compress(b"".join(pack(entries)), mtime=0)


def load_order(needs: dict[str, list[str]]) -> list[str]:
    """Return the modules to load, each after its dependencies."""
    wanted = [path for name in BOOT_MODULES for path in needs if _module(path) == name]
    order: dict[str, None] = {}
    for path in wanted:
        order.update(dict.fromkeys([*reversed(needs[path]), path]))
    return list(order)


def pack(entries: list[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """Yield a `newc` archive, as the kernel unpacks it."""
    for number, (name, mode, data) in enumerate([*entries, (TRAILER, 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        yield head + bytes(-len(head) % 4)
        yield data + bytes(-len(data) % 4)


def _file(path: str) -> str:
    return PurePosixPath(path).name


def _module(path: str) -> str:
    return _file(path).partition(".ko")[0].replace("-", "_")
