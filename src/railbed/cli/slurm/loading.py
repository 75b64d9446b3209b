"""Loads modules while a verb waits for machines: loading takes as long as a machine takes to answer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from importlib import import_module

STARTING_SECONDS = 0.03
"""How long it takes to start a step of a job on a few nodes: what they do then runs beside the loading."""


async def load_between(modules: Iterable[str]) -> None:
    """Load modules, one after another, between the other work of the event loop, once that has begun.

    They create no garbage, and live until the end: see `railbed.__main__`.
    """
    await asyncio.sleep(STARTING_SECONDS)
    gc.disable()
    try:
        for module in modules:
            import_module(module)
            await asyncio.sleep(0)
    finally:
        gc.enable()
        gc.freeze()
