"""The Python that bare machines will train with."""

from __future__ import annotations

import pytest

from railbed.discover.environment import ENVIRONMENT, with_environment
from railbed.discover.observation import observe
from railbed.model.cluster import Cluster, Login, Node
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.probes import pythons, torch

OUTPUT = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)
NONE = torch.Torch(python="3.12.3")
CONDA = pythons.CondaEnvironment(folder="/opt/conda/envs/a", version="3.12.3", torch=True)


def machine(installed: torch.Torch | None, *conda: pythons.CondaEnvironment) -> DeviceFacts:
    known: Known[object] | Unknown = Known(facts=installed, output=OUTPUT) if installed else Unknown(reason="timed out")
    others: Known[object] = Known(facts=pythons.Pythons(conda=conda), output=OUTPUT)
    return DeviceFacts(device="a", readings={"torch": (known,), "pythons": (others,)})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (machine(NONE), True),
        (machine(torch.Torch(python=None)), True),
        (machine(torch.Torch(python="3.12.3", torch="2.13.0")), False),
        (machine(NONE, CONDA), False),
        (machine(None), False),
        (DeviceFacts(device="a", readings={}), False),
    ],
    ids=["no torch", "no Python", "torch", "conda has it", "unknown", "not read"],
)
def test_a_machine_is_without_torch_only_if_that_is_known(facts: DeviceFacts, expected: bool) -> None:
    assert observe("a.invalid", Login(), facts).lacks_torch is expected


def test_the_environment_is_that_of_the_cluster() -> None:
    cluster = with_environment(Cluster(name="a", nodes={"a": Node(host="a.invalid")}))
    assert cluster.interpreter_of("a") == (ENVIRONMENT,)
