"""A picture of the live page for the documents: a generated run of six nodes, in chromium."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.support.browser import chromium
from tests.support.served import served_page
from tests.support.watched import Generated, write_generated

WIDTH, HEIGHT = 1100, 880
DRAWN = "document.documentElement.dataset.ready === 'yes' && document.querySelectorAll('canvas').length > 3"


def photograph_page(target: Path) -> None:
    """Write a screenshot, with a palette of its own to keep it small."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        os.environ["RAILBED_RUNS"] = folder
        shot = Path(folder) / "shot.png"
        with served_page(write_generated(Generated(nodes=6, seconds=1200))) as served:
            browser.look(width=WIDTH)
            browser.visit(served.url)
            browser.wait_for(DRAWN)
            browser.evaluate("new Promise(done => setTimeout(done, 1500))")
            browser.screenshot(shot)
        with Image.open(shot) as picture:
            picture.convert("RGB").crop((0, 0, WIDTH, HEIGHT)).quantize(192).save(target, optimize=True)
