"""One task on many devices at once: a dead or slow device only takes its own time-out, and is a value in the result."""

from railbed.fleet.fleet import DeviceAnswer, Fleet
from railbed.fleet.survey import survey, surveyed

__all__ = ["DeviceAnswer", "Fleet", "survey", "surveyed"]
