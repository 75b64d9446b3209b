"""Nodes without the libraries that tuning needs are reported before the launch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from railbed.api.site import built_in_local
from railbed.errors import ToolMissing
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.train import recipes
from railbed.train.capacity import fit
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector


def here(python: str) -> Cluster:
    site = built_in_local()
    nodes = {name: node.model_copy(update={"python": python}) for name, node in site.nodes.items()}
    return site.model_copy(update={"nodes": nodes})


async def require(cluster: Cluster, recipe: str) -> None:
    async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=60.0) as fleet:
        await fit.require_libraries(cluster, fleet, recipes.load(recipe))


async def test_a_node_that_has_them_is_silent() -> None:
    await require(here(sys.executable), "qlora")


async def test_a_missing_library_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ToolMissing) as caught:
        await require(here(str(bare)), "qlora")
    assert caught.value.message == (
        f"local cannot tune this model: transformers, peft, bitsandbytes not installed for {bare}"
    )
    await require(here(str(bare)), "tiny")
