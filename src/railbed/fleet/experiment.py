"""Changes for the time of an experiment, on nodes and switches: undone at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from railbed.fleet.change import change_nodes_temporarily
from railbed.fleet.fleet import Fleet
from railbed.fleet.switch_change import SwitchChange
from railbed.model.fix import Fix
from railbed.parsing.nexus.switch_lock import CHANGING, Holder

HOLDER = "an experiment"


@asynccontextmanager
async def temporarily(fleet: Fleet, fixes: Sequence[Fix]) -> AsyncIterator[None]:
    """Apply fixes, one for each device, and undo them at the end; raise NotChanged, or NotUndone.

    Switches are changed before nodes, and restored after them: nodes never send in a class that no switch protects.
    """
    switches = {target.name for target in fleet.targets if target.kind == "switch"}
    async with AsyncExitStack() as stack:
        for fix in fixes:
            if fix.device in switches:
                change = SwitchChange(fleet, fix, CHANGING, Holder.this_process("experiment"))
                await stack.enter_async_context(change.temporarily())
        nodes = [fix for fix in fixes if fix.device not in switches]
        await stack.enter_async_context(change_nodes_temporarily(fleet, nodes, HOLDER))
        yield
