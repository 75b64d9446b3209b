"""One thing on many devices at once: a dead or slow device costs its own time-out, and is a value in the result."""

from railbed.fleet.fleet import Answer, Fleet
from railbed.fleet.survey import survey

__all__ = ["Answer", "Fleet", "survey"]
