"""A rank that only counts steps, to test launching without torch. Run with a job file."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

JOB = json.loads(Path(sys.argv[1]).read_text())
OUT = int(sys.argv[2])
STEP = [JOB["from"]]


def send(**message: object) -> None:
    os.write(OUT, json.dumps(message).encode() + b"\n")


def beat() -> None:
    while True:
        send(kind="alive", step=STEP[0])
        time.sleep(0.5)


sys.stdout.write(f"rank {JOB['rank']} of {JOB['world']} begins at {STEP[0]}\n")
sys.stdout.flush()
if JOB["stops"]:  # before its first word, as while it loads
    os.kill(os.getpid(), signal.SIGSTOP)
if JOB["interference"]:
    send(kind="error", step=0, sentence=JOB["interference"], peer=True, interference=True)
    sys.exit(1)
if JOB["refuses"]:
    send(kind="error", step=0, sentence=JOB["refuses"], hint="ask for less", peer=False, refused=True)
    sys.exit(1)
threading.Thread(target=beat, daemon=True).start()
while STEP[0] < JOB["to"]:
    time.sleep(JOB["pace"])
    STEP[0] += 1
    send(kind="progress", step=STEP[0])
send(kind="rank_done", step=STEP[0])
