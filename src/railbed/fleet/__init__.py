"""One task on many devices at once: a dead or slow device only takes its own time-out, and is a value in the result.

Read `fleet.py` first.
"""

from railbed.fleet.fleet import DeviceAnswer, Fleet
from railbed.fleet.survey import choose_targets, read_facts, survey

__all__ = ["DeviceAnswer", "Fleet", "choose_targets", "read_facts", "survey"]
