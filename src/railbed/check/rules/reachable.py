"""Every node accepts our login and answers every command.

What
----
A connection to every node of the cluster file (this machine directly, others over SSH), and an answer to every command
within the time-out per node. Switches are read only if a rule needs them; one that does not answer is unknown. If the
BMC of a node was read, the finding has what it reports.

Why
---
Training starts its ranks over this connection; one node that does not answer keeps all others waiting in the rendezvous
until its time-out, ten minutes by default.

Fix
---
Try the login by hand: `ssh USER@HOST true`. A first contact needs the host key to be accepted once; a refused login
needs a key in the agent or in `login:`; if a machine stops answering halfway, a disk, driver or network hangs.

Source
------
PyTorch documentation, torch.distributed: `init_process_group` waits for all ranks until `timeout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.bmc import describe_bmc
from railbed.model.cluster import LOCAL_HOST, Switch
from railbed.model.reading import DeviceFacts
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import Site

EXPECTED = "an answer"
LOG_IN = "log in once with `ssh {login}`, and compare the fingerprint of its host key"


def judge(site: Site) -> Iterator[Judgement]:
    """Judge whether each node answered, and each switch that a rule needs."""
    for name in site.cluster.nodes:
        yield _judge_node(name, site.devices.get(name), describe_bmc(site, name))
    for name, switch in site.cluster.switches.items():
        if name in site.devices:
            yield _judge_switch(name, switch, site.devices[name])


def _judge_switch(name: str, switch: Switch, facts: DeviceFacts) -> Judgement:
    """A switch that does not answer is unknown: training does not log in to it."""
    if facts.failure is None:
        return ok(subject=name, expected=EXPECTED, observed="answers")
    if switch.host is None:
        return skip(facts.failure.reason, subject=name)
    judgement = unknown(subject=name, expected=EXPECTED, observed=facts.failure.reason, remedy=facts.failure.remedy)
    return replace(judgement, essential=False)


def _judge_node(name: str, facts: DeviceFacts | None, bmc: str) -> Judgement:
    if facts is None:
        return fail(subject=name, expected=EXPECTED, observed="was not queried")
    if facts.failure and facts.failure.excuse:
        return unknown(
            subject=name,
            expected=EXPECTED,
            observed=f"{facts.failure.excuse}; {facts.failure.reason}",
            remedy="check again when this machine is less busy",
        )
    if facts.failure:
        observed = "; ".join(filter(None, (facts.failure.reason, bmc)))
        return fail(subject=name, expected=EXPECTED, observed=observed, remedy=facts.failure.remedy)
    return ok(subject=name, expected=EXPECTED, observed="answers")


def _by_hand(site: Site) -> Iterator[HandStep]:
    for name, node in site.cluster.nodes.items():
        if node.host != LOCAL_HOST:
            yield HandStep(name, f"switch it on; {LOG_IN.format(login='USER@HOST')}")
    for name, switch in site.cluster.switches.items():
        if switch.host is not None:
            user = switch.login.over(site.cluster.login).user
            login = f"{user}@{switch.host}" if user else switch.host
            yield HandStep(name, f"switch it on; {LOG_IN.format(login=login)}")


RULE = Rule(
    name="reachable",
    title="every node answers",
    scope="cluster",
    stage="power",
    needs=(),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
    essential=True,
)
