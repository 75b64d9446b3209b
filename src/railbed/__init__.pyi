from typing import Final

from railbed import errors as errors
from railbed.api.clusters import load_cluster as load_cluster
from railbed.api.clusters import local as local
from railbed.api.reach import Reach as Reach
from railbed.api.stored import Run as Run
from railbed.api.stored import read_run as read_run
from railbed.api.stored import runs as runs
from railbed.api.stored import to_json as to_json
from railbed.api.stream import EventStream as EventStream
from railbed.api.stream import RecordStream as RecordStream
from railbed.api.train.verb import train as train
from railbed.api.verbs.bench import bench as bench
from railbed.api.verbs.bench import save_baseline as save_baseline
from railbed.api.verbs.capture import capture as capture
from railbed.api.verbs.capture import read_capture as read_capture
from railbed.api.verbs.check import check as check
from railbed.api.verbs.check import checklist as checklist
from railbed.api.verbs.configure import configure as configure
from railbed.api.verbs.configure import power_cycle as power_cycle
from railbed.api.verbs.configure import undo as undo
from railbed.api.verbs.diagnose import diagnose as diagnose
from railbed.api.verbs.discover import discover as discover
from railbed.api.verbs.export import export as export
from railbed.api.verbs.generate import generate as generate
from railbed.api.verbs.lab import Lab as Lab
from railbed.api.verbs.parse import parse as parse
from railbed.api.verbs.report import compare as compare
from railbed.api.verbs.report import report as report
from railbed.api.verbs.watch import watch as watch
from railbed.check.checklist import ChecklistItem as ChecklistItem
from railbed.errors import RailbedError as RailbedError
from railbed.model import events as events
from railbed.model.cluster import Cluster as Cluster
from railbed.model.record import Change as Change
from railbed.model.record import Event as Event
from railbed.model.record import Finding as Finding
from railbed.model.record import Measurement as Measurement
from railbed.model.record import Record as Record
from railbed.model.record import Verdict as Verdict
from railbed.store import Store as Store

__version__: Final[str]
HOMES: Final[dict[str, str]]
MODULES: Final[dict[str, str]]
