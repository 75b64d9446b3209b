"""A starter that disappears: starts a rank below a folder, waits for its first step, and ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.ranks import Starter
from tests.support.smallmodel import recipe

folder = Path(sys.argv[1])
(rank,) = Starter(folder, Path(sys.argv[2]), forks=False).start(1, recipe(steps=100_000), checkpoints="")
rank.read(until=lambda message: message["kind"] == "progress")
(folder / "pid").write_text(str(rank.process.pid))
os._exit(0)
