"""One example of every record, for the reference: they are typed, so they cannot go out of date."""

from __future__ import annotations

from railbed.model import events
from railbed.model.record import Change, Event, Finding, Measurement, Verdict

TIME = 1_790_000_000.0
RECIPE = {"steps": 300, "model": {"layers": 4}, "traffic": None}

FINDING = Finding(
    check="mtu",
    subject="node2/rail0",
    verdict=Verdict.FAIL,
    expected="MTU 9000",
    observed="MTU 1500",
    why="Frames larger than the smallest MTU of a path are lost.",
    remedy="ip link set dev rail0 mtu 9000",
    essential=True,
    time=TIME,
)
MEASUREMENT = Measurement(
    name="step_seconds", value=0.42, unit="s", labels={"step": 7, "rank": 0, "node": "node1"}, time=TIME
)
CHANGE = Change(subject="nodes.node2.ports.0.address", action="set", before="10.0.0.2", after="10.0.0.3", time=TIME)

_RAIL = events.RailTraffic(
    rail="rail0", netdev="ens1", rdma_port="mlx5_0/1", rdma_bytes=(1_900_000, 1_910_000), tcp_bytes=(0, 4_000)
)
_ROOM = events.NodeMemory(
    device="cpu", ranks=1, estimated_rank_bytes=875_000_000, needed_bytes=875_000_000, available_bytes=7_500_000_000
)

EXAMPLES: tuple[Event, ...] = (
    events.Notice(subject="node3", message="no free memory could be read", time=TIME),
    events.ErrorReported(subject="node1/rank0", message="the disk is full", rank=0, peer=False, time=TIME),
    events.LogLine(subject="node1/rank0", message="a line of a rank", time=TIME),
    events.Progress(message="starting the agents", waiting=["node1", "node2"], usual=4.0, time=TIME),
    events.ReadingStarted(message="reading 2 nodes", devices=2, names=["node1", "node2"], time=TIME),
    events.DeviceRead(subject="node1", message="31 probes", ok=True, time=TIME),
    events.ClusterBuilt(subject="lab", cluster={"name": "lab", "nodes": {"node1": {"host": "10.0.2.11"}}}, time=TIME),
    events.Sampling(
        subject="node1",
        message="57 series every 1 s; its clock is 3.1 ms ahead, known to ±0.2 ms",
        interval=1.0,
        series=57,
        clock_offset=0.0031,
        clock_error=0.0002,
        time=TIME,
    ),
    events.SamplingGap(
        subject="node2",
        message="no samples: it has not answered for 4 s",
        why="it has not answered for 4 s",
        last=TIME - 5.0,
        time=TIME,
    ),
    events.SamplingResumed(
        subject="node2", message="sampled again, after 61.0 s without samples", seconds=61.0, time=TIME
    ),
    events.ClockJumped(subject="node3", message="the clock of node3 was set by -2.500 s", seconds=-2.5, time=TIME),
    events.CaptureMethod(
        subject="node1/ens1",
        message="recorded on mlx5_0: the card's sniffer, through libpcap 1.10.3; the card copies every RDMA packet to "
        "the processor meanwhile, which slows RDMA down",
        method="card",
        source="mlx5_0",
        cost="the card copies every RDMA packet to the processor meanwhile, which slows RDMA down",
        time=TIME,
    ),
    events.CaptureStarted(
        message="recording 2 ports of 2 nodes",
        ports=["node1/rail0", "node2/rail0"],
        snap_length=128,
        seconds=10.0,
        time=TIME,
    ),
    events.PortCaptured(
        subject="node1/rail0",
        message="4,526 packets, 652 kB",
        file="raw/node1/rail0.pcap",
        bytes=651_768,
        captured=4526,
        dropped=0,
        time=TIME,
    ),
    events.RecordingRead(
        subject="node1/rail0",
        message="4,526 packets of RDMA in 2.1 s",
        file="raw/node1/rail0.pcap",
        packets=4526,
        total=4526,
        bytes=18_537_472,
        snap_length=128,
        dropped=0,
        began=TIME,
        ended=TIME + 2.1,
        time=TIME,
    ),
    events.ClockAligned(
        subject="node2/rail0",
        message="3.1 ms ahead, known to ±5.2 µs from 9,046 packets",
        offset=0.0031,
        drift=1.2e-6,
        error=5.2e-6,
        packets=9046,
        time=TIME,
    ),
    events.Flow(
        subject="node1/ens1 → node2/ens1",
        message="4,526 packets, 18.7 MB, 338 marked as congested",
        id="f1",
        source="10.0.0.1",
        destination="10.0.0.2",
        source_node="node1",
        destination_node="node2",
        rail="rail0",
        qp=0x11,
        partner="f2",
        partner_certainty="certain",
        transport="RC",
        role="requests",
        recorded_at=["sender", "receiver"],
        began=TIME,
        ended=TIME + 2.1,
        packets=4526,
        bytes=18_700_000,
        payload_bytes=18_500_000,
        dscp={"26": 4526},
        ecn={"ect0": 4526},
        arrived=4526,
        ecn_arrived={"ect0": 4188, "ce": 338},
        messages={"write": 280},
        message_bytes_median=65_536,
        message_bytes_largest=65_536,
        messages_per_second=133.3,
        full_packet_bytes=4096,
        resent=0,
        reordered=0,
        lost=0,
        uncaptured=0,
        unresolved=0,
        refusals={},
        notifications=12,
        round_trip=events.Times(count=280, median=0.00048, p99=0.0012, longest=0.0031),
        delay=events.Times(count=4526, median=0.00021, p99=0.0008, longest=0.0019),
        reaction=events.Reactions(
            episodes=3, slowed=3, unjudged=0, before=9.1e6, after=4.4e6, reacted=0.0004, recovered=0.021
        ),
        time=TIME,
    ),
    events.FlowRates(
        subject="node1/ens1 → node2/ens1",
        id="f1",
        start=TIME,
        width=0.7,
        bytes_per_second=[9.1e6, 8.2e6, 9.0e6],
        packets=[1550, 1430, 1546],
        ce=[12, 300, 26],
        notifications=[1, 10, 1],
        time=TIME,
    ),
    events.Ladder(
        subject="node1/ens1 → node2/ens1",
        message="around a lost packet",
        id="f1",
        why="a lost packet",
        left="node1",
        right="node2",
        start=TIME,
        file="raw/node1/rail0.pcap",
        other_file="raw/node2/rail0.pcap",
        steps=[
            events.LadderStep(to="right", text="SEND Only", psn=7, number=12, left=0.0, note="lost"),
            events.LadderStep(to="right", text="SEND Only", psn=8, number=13, left=0.000001, right=0.000006),
            events.LadderStep(
                to="left", text="Acknowledge", psn=7, number=14, left=0.000011, right=0.000006, note="sequence"
            ),
        ],
        time=TIME,
    ),
    events.BenchPlanned(
        subject="quick", message="quick: 12 trials, about 40 s", suite="quick", trials=12, seconds=40.0, time=TIME
    ),
    events.TrialStarted(
        subject="node1 > node2",
        message="ib_write_bw",
        number=3,
        seconds=2.0,
        done=2,
        total=12,
        elapsed=6.1,
        expected=2.4,
        left=24.0,
        time=TIME,
    ),
    events.Remeasuring(
        subject="node1 > node2 on rail0", message="node1 > node2 on rail0 is measured again", seconds=8.0, time=TIME
    ),
    events.FirstVisitDone(
        subject="cable",
        message="old cable is measured; now change the cable, then measure new cable",
        experiment={"a": {"name": "old cable"}, "b": {"name": "new cable"}},
        paths=[["node1 > node2"]],
        time=TIME,
    ),
    events.GenerationStarted(
        subject="generation 1", message="2 ranks on node1, node2", generation=1, nodes=["node1", "node2"], time=TIME
    ),
    events.GenerationFailed(subject="node2", message="node2: rank 1 was ended by SIGKILL", generation=1, time=TIME),
    events.GenerationDone(message="every rank is done", generation=2, time=TIME),
    events.NodeUp(subject="node1", message="its agent answers", time=TIME),
    events.NodeLost(subject="node2", message="no answer for 4 s", time=TIME),
    events.NodeCut(subject="node2", message="node1 does not reach it over the rail", time=TIME),
    events.NodeOut(subject="node2", message="excluded from now on: lost 3 times", time=TIME),
    events.Intrusion(
        subject="node1/rank0", message="a connection from 10.0.0.9 was rejected", rank=0, address="10.0.0.9", time=TIME
    ),
    events.TrainingStarted(
        subject="20260921-141320-ab12",
        run="20260921-141320-ab12",
        recipe=RECIPE,
        ranks=1,
        minimum=1,
        transport="auto",
        resumes="",
        time=TIME,
    ),
    events.MemoryEstimated(
        message="3,174,144 parameters; a rank will take about 0.9 GB",
        parameters=3_174_144,
        nodes={"node1": _ROOM},
        time=TIME,
    ),
    events.RankChoices(
        subject="node1/rank0",
        rank=0,
        device="cpu",
        precision="fp32",
        compile=False,
        threads=1,
        transport="mpi",
        parameters=3_174_144,
        torch_version="2.13.0",
        time=TIME,
    ),
    events.TransportChosen(
        subject="mpi", message="mpi is fastest", rank=0, engine="mpi", reason="mpi is fastest", time=TIME
    ),
    events.Resuming(
        subject="20260921-141320-train",
        message="continues after step 150 of 300",
        step=150,
        nodes=["node1", "node2"],
        time=TIME,
    ),
    events.Resumed(subject="node1", message="continues after step 150", rank=0, step=150, time=TIME),
    events.CheckpointSaved(
        subject="node1",
        message="state of step 150 saved and verified in 0.3 s",
        rank=0,
        step=150,
        hash="9f86d081",
        bytes=25_400_000,
        folder="checkpoints/150",
        seconds=0.3,
        stall_seconds=0.01,
        time=TIME,
    ),
    events.CheckpointFailed(subject="node1/rank0", message="the disk is full", rank=0, step=200, time=TIME),
    events.SharesChanged(
        message="node1 takes 12 of 16 sequences, node2 4", rank=0, step=8, counts=[12, 4], paces=[3.0, 1.0], time=TIME
    ),
    events.TextSampled(subject="node1/rank0", rank=0, step=300, tokens=[17, 4], text="def read", time=TIME),
    events.WeightsWritten(subject="node1/rank0", rank=0, folder="runs/x/model", step=300, time=TIME),
    events.RankDone(subject="node1/rank0", rank=0, step=300, loss=2.9, seconds=126.0, time=TIME),
    events.CountersRead(
        subject="node1",
        rank=0,
        step=10,
        begin=False,
        transport="mpi",
        rdma={"mlx5_0/1": {"port_xmit_data": 475_000}},
        net={"ens1": {"tx_bytes": 2_000}},
        time=TIME,
    ),
    events.GradientPath(
        subject="cluster",
        message="1.9 MB of 1.9 MB of gradients crossed RoCE on both nodes",
        verdict=Verdict.OK,
        short="RDMA",
        transport="mpi",
        nodes=[events.NodeGradients(node="node1", carrier="rdma", gradient_bytes=1_900_000, rails=[_RAIL])],
        time=TIME,
    ),
    events.CaughtUp(
        message="the restart cost 35.0 s",
        lost_seconds=35.0,
        unnoticed_seconds=4.5,
        stopped_seconds=11.3,
        again_seconds=19.2,
        steps_again=6,
        step=173,
        time=TIME,
    ),
    events.FellShort(
        message="trained to the end, but node3 was lost at step 12 (no answer for 4 s)",
        lost={"node3": events.LostNode(step=12, why="no answer for 4 s")},
        time=TIME,
    ),
    events.ChangesPlanned(
        message="3 changes on 2 devices",
        devices=["node1", "node2"],
        changes=3,
        left_out=1,
        interrupts=["node1"],
        time=TIME,
    ),
    events.ChangeStarted(subject="node1", message="changing node1", time=TIME),
    events.DeviceChanged(subject="node1", message="node1 was changed", outcome="applied", time=TIME),
    events.ChangeUnfinished(
        subject="node1",
        message="run 20260921-141320-configure was cut short while it changed node1; it may be half-changed",
        run="20260921-141320-configure",
        time=TIME,
    ),
    events.FilesRendered(
        message="written to by-hand", folder="by-hand", files=["node1-undo.sh", "node1.sh"], time=TIME
    ),
    events.Detached(
        subject="20260921-141320-train",
        run="20260921-141320-train",
        folder="runs/20260921-141320-train",
        pid=4711,
        time=TIME,
    ),
    events.Stopped(subject="20260921-141320-train", was="running", status="interrupted", exit=130, time=TIME),
    events.WeightsFetched(
        subject="20260921-141320-ab12",
        message="weights of step 300, as written at its end, from node1: model",
        folder="model",
        node="node1",
        step=300,
        bytes=12_700_000,
        finished=True,
        time=TIME,
    ),
    events.ReportWritten(
        subject="20260921-141320-train",
        file="report.html",
        format="html",
        verdict="Training took 2 min 29 s.",
        sections=["verdict", "loss"],
        figures=10,
        time=TIME,
    ),
    events.ComparisonWritten(
        subject="a and b", file="compare.html", verdict="Nothing changed.", sections=["verdict"], figures=1, time=TIME
    ),
    events.Leftover(
        subject="runs/20260921-141320-train",
        run="20260921-141320-train",
        bytes=31_000_000,
        status="done",
        time=TIME,
    ),
    events.Retained(subject="runs/20260921-150000-train", message="it is running", time=TIME),
    events.Removed(subject="runs/20260921-141320-train", bytes=31_000_000, time=TIME),
    events.LabUp(subject="lab", cluster="labs/lab/cluster.yaml", nodes=3, time=TIME),
    events.LabDown(subject="lab", message="down", time=TIME),
    events.LabCabled(subject="lab", message="namespaces connected, keys made", time=TIME),
    events.LabNodeUp(subject="node1", message="answers", time=TIME),
    events.LabSwitchUp(subject="nexus", message="an emulated n9k answers", time=TIME),
    events.LabNodeBooted(subject="node1", message="booted, its rails are up", time=TIME),
    events.LabImage(subject="image", message="installed, 80.0 s", seconds=80.0, time=TIME),
    events.LabEmulated(subject="lab", message="there is no KVM on this machine", time=TIME),
    events.LabFaultSet(subject="node1", message="MTU 1500", fault="mtu", time=TIME),
    events.LabHealed(subject="node1", message="MTU 1500: undone", time=TIME),
    events.LabStatus(
        subject="lab",
        message="up",
        kind="netns",
        nodes=3,
        rails=1,
        cluster="labs/lab/cluster.yaml",
        states={"node1": "up"},
        faults=[events.LabFault(fault="mtu", target="node1", value=1500.0, text="MTU 1500")],
        time=TIME,
    ),
)
