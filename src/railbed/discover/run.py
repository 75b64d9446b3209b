"""The verb: read machines, and report the cluster they form and its differences from the file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from railbed import clusterfile
from railbed.discover.build import build, notices
from railbed.discover.cables import SWITCH_PROBES, SwitchObservation, observe_switch
from railbed.discover.environment import ENVIRONMENT, with_environment
from railbed.discover.observation import ENVIRONMENT_PROBES, PROBES, Observation, observe
from railbed.fleet import Fleet, choose_targets, survey
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts, DeviceFailure
from railbed.model.record import Event, Record
from railbed.model.text import plural


async def discover(
    machines: Cluster,
    fleet: Fleet,
    *,
    name: str,
    existing: Cluster | None = None,
    before: Cluster | None = None,
    switches: Sequence[str] = (),
    narrow: Callable[[Cluster], Cluster] | None = None,
    bare: bool = False,
) -> AsyncGenerator[Record, None]:
    """Yield an event per machine read, notices, the differences from the existing file, and the cluster itself.

    Switches of `machines` are read, too, for the cables to the nodes.
    `before` is the file as written, if `existing` already has changes that the user requested. `narrow` leaves out what
    the machines have and the cluster must not use. Machines that were `bare` until now train in an environment that
    configure creates, if none of them has torch.
    """
    observed: dict[str, Observation] = {}
    switch_observations: dict[str, SwitchObservation] = {}
    probes = (*PROBES, *(SWITCH_PROBES if machines.switches else ()), *(ENVIRONMENT_PROBES if bare else ()))
    hosts = {target.name: target.host or target.name for target in choose_targets(fleet, probes)}
    yield _reading_started([*hosts.values()])
    async with aclosing(survey(fleet, machines, probes)) as answers:
        async for facts in answers:
            if facts.device in observed:
                continue
            yield _device_read(hosts[facts.device], facts)
            if facts.failure:
                yield events.Notice(subject=facts.device, message=_failure_notice(hosts[facts.device], facts.failure))
            elif facts.device in machines.nodes:
                node = machines.nodes[facts.device]
                observed[facts.device] = observe(node.host, node.login, facts, common_login=machines.login)
            else:
                switch_observations[facts.device] = observe_switch(facts)
    observations = [observed[device] for device in machines.nodes if device in observed]
    if not observations:
        return
    for notice in notices(observations, existing):
        yield events.Notice(message=notice)
    cluster = build(name, observations, existing=existing, switches=switches, switch_observations=switch_observations)
    cluster = narrow(cluster) if narrow else cluster
    if bare and all(observation.lacks_torch for observation in observations):
        cluster = with_environment(cluster)
        yield events.Notice(message=f"no machine has torch yet: configure creates {ENVIRONMENT} on each of them")
    before = before or existing
    for change in clusterfile.difference(before, cluster) if before else ():
        yield change
    yield events.ClusterBuilt(subject=name, cluster=cluster.model_dump(mode="json", exclude_defaults=True))


def _reading_started(names: Sequence[str]) -> Event:
    message = f"reading {plural(len(names), 'machine')}"
    return events.ReadingStarted(message=message, devices=len(names), names=names)


def _device_read(host: str, facts: DeviceFacts) -> Event:
    message = facts.failure.reason if facts.failure else plural(len(facts.readings), "probe")
    return events.DeviceRead(subject=host, message=message, ok=facts.failure is None)


def _failure_notice(host: str, failure: DeviceFailure) -> str:
    return f"{host}: {failure.reason}{f' ({failure.remedy})' if failure.remedy else ''}"
