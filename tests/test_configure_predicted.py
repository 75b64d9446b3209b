"""What `configure` says about interruptions of a switch, and what its changes then do to the traffic of all ports.

Each change is planned, made and undone on an emulated Nexus over SSH, with two ports of the cluster file and one of
somebody else. The switch counts which ports lost packets or their link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from netmiko import ConnectHandler

import switchlab
from railbed.api.verbs.bench import bench
from railbed.api.verbs.configure import configure, undo
from railbed.model import events
from railbed.model.cluster import Cluster, Login, Node, Port, Rail, Secret, Switch, SwitchPort
from railbed.model.fix import ALL_PORTS
from railbed.model.record import Change, Measurement, Record
from railbed.store import Store
from switchlab import RunningSwitch
from tests.switchlab.nexus.support import LOSSLESS, PASSWORD

pytestmark = pytest.mark.xdist_group("predicted")  # all clusters are this machine, which one configure may change
OURS, THEIRS = ("Ethernet1/1", "Ethernet1/2"), "Ethernet1/9"
WITHOUT_ECN = LOSSLESS.replace(" ecn\n", "\n")
FLOW_CONTROL = LOSSLESS + "interface Ethernet1/2\n  flowcontrol receive on\n  flowcontrol send on\n"
CHANNEL = "interface Ethernet1/1-2\n  channel-group 10 mode active\n"
FCOE = "system qos\n  service-policy type queuing output fcoe-default-out-policy\n"
DECIDE = "needs your decision"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A switch as it is found, what is asked of configure, and what the plan and the switch must agree on."""

    platform: str = "n9k"
    config: str = ""
    rules: tuple[str, ...] = ()
    tcam: str = ""
    """A TCAM region without memory."""
    losing: frozenset[str] = frozenset()
    flapping: frozenset[str] = frozenset()
    entered: tuple[str, ...] = ()
    """Lines of the running configuration afterwards."""
    absent: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Rules whose changes are left to a decision."""


ALL = frozenset({ALL_PORTS})
SCENARIOS = {
    "from the factory": Scenario(losing=ALL, entered=("    pause pfc-cos 3", "  priority-flow-control mode on")),
    "four queues": Scenario(
        platform="n9k-ale",
        losing=ALL,
        entered=("  class type network-qos c-nq2", "  class type queuing c-out-q3", "    priority level 1"),
        absent=("  class type network-qos c-nq3", "    priority level 2"),
    ),
    "Nexus 5000": Scenario(platform="n5k", losing=ALL, entered=("    pause no-drop",)),
    "queues of the cluster's ports": Scenario(
        rules=("switch_ecn",), losing=frozenset(OURS), entered=("  service-policy type queuing output RAILBED-EGRESS",)
    ),
    "a policy of the site": Scenario(config=WITHOUT_ECN, left_out=("switch_ecn",), absent=(" weight 0 ecn",)),
    "a policy of the site, by decision": Scenario(config=WITHOUT_ECN, rules=("switch_ecn",), losing=ALL),
    "flow control beside PFC": Scenario(
        config=FLOW_CONTROL, flapping=frozenset({OURS[1]}), absent=("  flowcontrol receive on",)
    ),
    "a port that was shut down": Scenario(
        config=LOSSLESS + "interface Ethernet1/2\n  shutdown\n", left_out=("switch_link",), entered=("  shutdown",)
    ),
    "a port that was shut down, by decision": Scenario(
        config=LOSSLESS + "interface Ethernet1/2\n  shutdown\n", rules=("switch_link",), absent=("  shutdown",)
    ),
    "members of a port-channel": Scenario(
        config=CHANNEL,
        losing=ALL,
        entered=("interface port-channel10", "  service-policy type qos input RAILBED-CLASSIFY"),
    ),
    "classification of a port-channel": Scenario(config=CHANNEL, rules=("switch_dscp", "switch_pfc")),
    "no room in the TCAM": Scenario(
        tcam="ing-l2-qos", rules=("switch_network_qos", "switch_dscp", "switch_cnp", "switch_ecn"), absent=("RAILBED",)
    ),
    "FCoE": Scenario(
        platform="n5k", config=FCOE, rules=("switch_network_qos", "switch_dscp", "switch_cnp"), absent=("RAILBED",)
    ),
}
QUICK = ("queues of the cluster's ports", "flow control beside PFC", "no room in the TCAM")


@dataclass
class Site:
    """A running switch, and a cluster whose nodes do not answer."""

    switch: RunningSwitch
    cluster: Cluster
    store: Store
    questions: list[str] = field(default_factory=list)
    noted: int = 0

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return True

    def disturbed(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return which ports lost packets, and which their link, since the last call."""
        happened = self.switch.control.disturbances()[self.noted :]
        self.noted += len(happened)
        ports = [(str(port), bool(event["flapped"])) for event in happened for port in _ports(event)]
        return frozenset(port for port, _ in ports), frozenset(port for port, flapped in ports if flapped)

    async def configure(self, rules: Sequence[str] = (), *, apply: bool = False) -> list[Record]:
        verb = configure(self.cluster, apply=apply, rules=rules, only=["s1"], confirm=self.confirm, store=self.store)
        return [record async for record in verb]

    async def undo(self) -> list[Record]:
        return [record async for record in undo("newest", self.cluster, confirm=self.confirm, store=self.store)]


def _ports(event: dict[str, object]) -> Sequence[object]:
    ports = event["ports"]
    assert isinstance(ports, list)
    return ports


Open = Callable[[Scenario], Site]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    running: list[RunningSwitch] = []
    monkeypatch.setenv("NEXUS_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)

    def open_site(scenario: Scenario) -> Site:
        switch = switchlab.start(
            password=PASSWORD,
            platform=scenario.platform,
            config=scenario.config,
            host_key=str(tmp_path / "host_key"),
        )
        running.append(switch)
        for number, port in enumerate((*OURS, THEIRS), 1):
            switch.control.cable(port, mac=f"0c:42:a1:aa:00:0{number}", peer="ab?"[number - 1], peer_port="eth1")
        if scenario.tcam:
            switch.control.request("tcam", region=scenario.tcam, size=0)
        public = (tmp_path / "host_key.pub").read_text()
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{switch.ssh_port} {public}")
        site = Site(switch, _cluster(switch.ssh_port, tmp_path / "known_hosts"), Store(folder=tmp_path / "runs"))
        site.disturbed()
        return site

    yield open_site
    for switch in running:
        switch.stop()


def _cluster(port: int, known_hosts: Path) -> Cluster:
    login = Login(user="admin", port=port, password=Secret(env="NEXUS_PASSWORD"), known_hosts=str(known_hosts))
    nodes = {
        name: Node(
            host="127.0.0.1",
            login=Login(port=9),
            ports=(Port(netdev="eth1", rail="r", address=ip_address(f"10.1.0.{number}"), rdma="mlx5_0"),),
        )
        for number, name in enumerate("ab", 1)
    }
    cables = tuple(SwitchPort(name=name, node=node, netdev="eth1") for name, node in zip(OURS, "ab", strict=True))
    return Cluster(
        name="x",
        rails={"r": Rail(subnet=ip_network("10.1.0.0/24"))},
        nodes=nodes,
        switches={"s1": Switch(host="127.0.0.1", login=login, ports=cables)},
    )


def predicted(records: Sequence[Record]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the ports that a plan names, with port-channels as their members."""
    made = [record for record in records if isinstance(record, Change) and not record.left_out]
    losing = frozenset(port for change in made for port in change.losing)
    flapping = frozenset(port for change in made for port in change.flapping)
    if ALL_PORTS in losing:
        return ALL, flapping
    return _members(losing), _members(flapping)


def _members(ports: frozenset[str]) -> frozenset[str]:
    return frozenset(member for port in ports for member in (OURS if port.startswith("port-channel") else (port,)))


def assert_as_predicted(
    plan: tuple[frozenset[str], frozenset[str]], happened: tuple[frozenset[str], frozenset[str]]
) -> None:
    """Assert that no port was disturbed that the plan did not name, and that everything it named really happened.

    A new MTU may cost a port packets on a real switch; the emulated one does not lose any.
    """
    (losing, flapping), (lost, flapped) = plan, happened
    assert flapped == flapping
    assert lost - flapped <= ({*OURS, THEIRS} if losing == ALL else losing)
    assert (THEIRS in lost) is (losing == ALL), "ports of others are disturbed only if the plan says so"


async def scenario_holds(site: Site, scenario: Scenario) -> None:
    before = running(site)
    planned = await site.configure(scenario.rules)
    assert predicted(planned) == (scenario.losing, scenario.flapping)
    assert site.disturbed() == (frozenset(), frozenset()), "a plan disturbs nobody"
    reasons = {record.check: record.left_out for record in planned if isinstance(record, Change) and record.left_out}
    assert {rule for rule, reason in reasons.items() if DECIDE in reason} == set(scenario.left_out)
    applied = await site.configure(scenario.rules, apply=True)
    assert_as_predicted(predicted(applied), site.disturbed())
    outcomes = [record.outcome for record in applied if isinstance(record, events.DeviceChanged)]
    changes = [record for record in applied if isinstance(record, Change) and not record.left_out]
    assert outcomes == (["applied"] if changes else [])
    after = running(site)
    assert [line for line in scenario.entered if line not in after] == []
    assert [text for text in scenario.absent if any(text in line for line in after)] == []
    if not changes:
        assert (site.questions, after) == ([], before)
        return
    assert_question(site.questions[-1], scenario)
    undone = await site.undo()
    assert_as_predicted(predicted(undone), site.disturbed())
    assert_question(site.questions[-1], scenario)
    assert running(site) == before


def assert_question(question: str, scenario: Scenario) -> None:
    assert "s1" in question
    assert ("all ports of s1 lose packets for a moment, also those not in the cluster file" in question) is (
        scenario.losing == ALL
    )
    assert all(port in question for port in (scenario.losing | scenario.flapping) - ALL)
    assert ("goes down and comes up again" in question) is bool(scenario.flapping)


def running(site: Site) -> list[str]:
    """Return the running configuration, without the comments that contain the time."""
    with ConnectHandler(
        device_type="cisco_nxos", host="127.0.0.1", port=site.switch.ssh_port, username="admin", password=PASSWORD
    ) as client:
        text = str(client.send_command("show running-config"))
    return [line for line in text.splitlines() if line.strip() and not line.startswith("!")]


@pytest.mark.parametrize("name", QUICK)
async def test_the_plan_names_what_a_change_interrupts(opened: Open, name: str) -> None:
    scenario = SCENARIOS[name]
    await scenario_holds(opened(scenario), scenario)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in QUICK])
async def test_every_change_interrupts_what_its_plan_names(opened: Open, name: str) -> None:
    scenario = SCENARIOS[name]
    await scenario_holds(opened(scenario), scenario)


REFUSALS = [
    ("service-policy type queuing", "command failed: policy is not compatible"),
    ("service-policy type network-qos", "Error: buffers are exhausted"),
    ("service-policy type qos", 'Module 1 returned status "TCAM region is not configured"'),
]


@pytest.mark.soak
@pytest.mark.parametrize(("command", "refusal"), REFUSALS)
async def test_a_refusal_restores_the_switch_and_disturbs_only_what_the_plan_named(
    opened: Open, command: str, refusal: str
) -> None:
    site = opened(Scenario())
    before = running(site)
    site.switch.control.refuse(command, refusal)
    records = await site.configure(apply=True)
    (outcome,) = [record for record in records if isinstance(record, events.DeviceChanged)]
    assert (outcome.outcome, refusal in outcome.message) == ("restored", True)
    lost, flapped = site.disturbed()
    assert predicted(records)[0] == ALL
    assert not flapped
    assert lost <= {*OURS, THEIRS}
    assert running(site) == before


async def test_without_a_yes_nothing_is_changed(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    site = opened(Scenario())
    monkeypatch.setattr(site, "confirm", lambda _: False)
    records = await site.configure(apply=True)
    assert [record.message for record in records if isinstance(record, events.Notice)] == ["nothing was changed"]
    assert site.disturbed() == (frozenset(), frozenset())


EXPERIMENT = """\
a: {name: plain}
b: {name: marked, change: {configure: [switch_ecn]}}
comparisons:
  - measure: bandwidth
    a: {test: iperf3, pattern: pair, direction: one, seconds: 1}
    b: {test: iperf3, pattern: pair, direction: one, seconds: 1}
"""


async def test_an_experiment_that_changes_a_switch_shows_its_plan_and_asks_first(opened: Open, tmp_path: Path) -> None:
    site = opened(Scenario())
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    questions: list[str] = []

    def decline(question: str) -> bool:
        questions.append(question)
        return False

    verb = bench(site.cluster, experiment=str(tmp_path / "experiment.yaml"), confirm=decline, store=site.store)
    records = [record async for record in verb]
    assert predicted(records) == (frozenset(OURS), frozenset())
    assert questions == [
        "change s1 for marked, and restore them afterwards; Ethernet1/1, Ethernet1/2 of s1 lose packets for a moment; "
        "the same when they are restored?"
    ]
    assert [record.message for record in records if isinstance(record, events.Notice)] == ["nothing was changed"]
    assert site.disturbed() == (frozenset(), frozenset())
    assert not [record for record in records if isinstance(record, Measurement)]
