"""Freed memory stays with a rank: what a step frees, the next one gets without page faults."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys
import torch
from railbed.train.worker.allocator import keep_freed_memory

def work():
    for _ in range(5):
        torch.ones(5_000_000).add_(1)  # 20 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(25_000_000).add_(1)  # 100 MB: more than glibc ever keeps
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

plain = work()
assert keep_freed_memory() or sys.exit("this C library cannot")
work()
print(plain, work())
"""


def test_a_tensor_that_was_freed_comes_back_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    plain, reused = map(int, done.stdout.split())
    assert reused < plain / 10
