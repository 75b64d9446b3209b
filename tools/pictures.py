"""Draw the pictures in the documents: terminals, from recordings alone, and the report's page with chromium.

`python -m tools.pictures` writes all of them; a test compares the terminals with what would be drawn.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.recordings import make_recording

from tools.page_picture import photograph_page
from tools.terminal_svg import draw

ROOT = Path(__file__).parent.parent
IMAGES, RECORDINGS = ROOT / "docs" / "images", ROOT / "docs" / "recordings"
COLUMNS = 92
RAILBED = str(Path(sys.executable).parent / "railbed")
SECONDS = 60
BETWEEN = "\x1e"
"""Separates the outputs of screens that one process shows."""
PROMPT = "\x1b[32m$\x1b[0m \x1b[1m{}\x1b[0m\n"
ELAPSED = re.compile(r"in \d+\.\d s, ")
"""The duration of a replay says nothing about the cluster."""
RUN = "runs/20260102-030405-{}"
PAGE, LIVE_PAGE, PAGE_SIZE = "report.png", "watch.png", (1100, 810)
CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
TRIES = 3


def pictures() -> dict[str, Callable[[], str]]:
    """Return the function that draws each file, by its name."""
    return {"check.svg": check, "bench.svg": bench, "train.svg": train, "lab.svg": lab}


def check() -> str:
    """Return the output of `check` for a cluster with a misconfigured node."""
    with tempfile.TemporaryDirectory() as folder:
        recording = make_recording("two-roce-vms", Path(folder) / "recording")
        text = _output_of(RAILBED, "check", "--replay", str(recording), folder=folder, stderr=subprocess.DEVNULL)
    return _terminal("railbed check", [("railbed check", _shorten(text, 38))])


def bench() -> str:
    """Return the output of `bench` for a lab with a slow node."""
    (text,) = _show(("bench", "bench.jsonl"))
    return _terminal("railbed bench", [("railbed bench", text)])


def train() -> str:
    """Return the output of `train` for a run that loses a node."""
    with tempfile.TemporaryDirectory() as folder:
        text = _output_of(RAILBED, "train", "--attach", str(_run_folder(Path(folder))), folder=folder)
    command = "railbed train tiny -c cluster.yaml --min-nodes 2"
    return _terminal("railbed train", [(command, text.replace(f"{folder}/", ""))])


def lab() -> str:
    """Return a lab, a fault, and the output of `check`."""
    steps = {
        "railbed lab up --nodes 4": ("lab_up", "lab-up.jsonl"),
        "railbed lab fault mtu node2 1500": ("lab", "lab-fault.jsonl"),
        "railbed check mtu mtu_path link_up -c lab.yaml": ("check", "lab-check.jsonl"),
        "railbed lab fault heal": ("lab", "lab-heal.jsonl"),
    }
    return _terminal("railbed lab", list(zip(steps, _show(*steps.values()), strict=True)))


def photograph(target: Path) -> None:
    """Write a screenshot of the report's page, with few colours to keep it small."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "page.html", Path(folder) / "shot.png"
        _output_of(RAILBED, "report", str(_run_folder(Path(folder))), "--output", str(page), folder=folder)
        _browse(page, shot, profile=Path(folder) / "profile")
        with Image.open(shot) as picture:
            picture.convert("RGB").quantize(64).save(target, optimize=True)


def _browse(page: Path, shot: Path, *, profile: Path) -> None:
    """Write chromium's screenshot of a page; chromium may hang, so it has a time-out and a second attempt."""
    width, height = PAGE_SIZE
    options = [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={shot}"]
    for _ in range(TRIES):
        with suppress(subprocess.TimeoutExpired):
            silent = subprocess.DEVNULL
            command = [*CHROMIUM, *options, f"file://{page}"]
            subprocess.run(command, stdin=silent, stdout=silent, stderr=silent, timeout=SECONDS, check=False)
        if shot.exists():
            return
    raise SystemExit("chromium made no picture of the report")


def _run_folder(folder: Path) -> Path:
    """Return the recorded training as a run folder below another folder."""
    run = folder / RUN.format("train")
    shutil.copytree(RECORDINGS / "train", run)
    return run


def _terminal(title: str, commands: list[tuple[str, str]]) -> str:
    text = "\n".join(PROMPT.format(command) + output.rstrip() + "\n" for command, output in commands)
    return draw(ELAPSED.sub("", text).rstrip(), columns=COLUMNS, title=title)


def _shorten(text: str, lines: int) -> str:
    all_lines = text.splitlines()
    return text if len(all_lines) <= lines else "\n".join(all_lines[:lines]).rstrip() + "\n\x1b[2m…\x1b[0m"


def _show(*screens: tuple[str, str]) -> list[str]:
    """Return what each screen shows for its recorded records."""
    words = [word for screen, recording in screens for word in (screen, str(RECORDINGS / recording))]
    return _output_of(sys.executable, "-m", "tools.show_records", *words, folder=str(ROOT)).split(BETWEEN)


def _output_of(*command: str, folder: str, stderr: int = subprocess.STDOUT) -> str:
    """Return the terminal output of a program, with its colours."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("RAILBED_") and name != "NO_COLOR"
    }
    colourful = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **colourful},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=SECONDS,
        check=False,
    )
    text = done.stdout.decode()
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {text}")
    return text


def main() -> None:
    """Write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (IMAGES / name).write_text(picture(), encoding="utf-8")
        print(f"docs/images/{name}")
    if shutil.which(CHROMIUM[0]):
        photograph(IMAGES / PAGE)
        print(f"docs/images/{PAGE}")
        photograph_page(IMAGES / LIVE_PAGE)
        print(f"docs/images/{LIVE_PAGE}")


if __name__ == "__main__":
    main()
