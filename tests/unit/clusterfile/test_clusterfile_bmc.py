"""BMCs in the cluster file: what a node takes from all BMCs, and what would reach the wrong machine."""

from __future__ import annotations

import pytest

from railbed.clusterfile import loads
from railbed.clusterfile.write import dumps
from railbed.errors import ClusterFileError
from railbed.model.cluster import Secret
from railbed.transport.base import targets_of

FINGERPRINT = ":".join(["AB"] * 32)
FILE = f"""\
name: site
login: {{user: ssh-user, password: {{env: SSH_PASSWORD}}, jump: gate}}
bmc: {{user: admin, password: {{env: BMC_PASSWORD}}, ca: ~/site-ca.pem}}
nodes:
  n1: {{host: 10.0.0.1, bmc: {{host: 10.0.9.1, fingerprint: "{FINGERPRINT}"}}}}
  n2: {{host: 10.0.0.2, bmc: {{host: 10.0.9.2, access: ipmi, user: other, cipher_suite: 17}}}}
  n3: {{host: 10.0.0.3}}
"""


def test_a_bmc_is_completed_from_all_bmcs_and_never_from_the_login() -> None:
    cluster = loads(FILE, name="cluster.yaml")
    bmcs = cluster.bmcs()
    assert {name: node for name, (node, _) in bmcs.items()} == {"n1:bmc": "n1", "n2:bmc": "n2"}
    first, second = bmcs["n1:bmc"][1], bmcs["n2:bmc"][1]
    assert (first.user, first.ca, first.fingerprint, first.open_port) == ("admin", None, FINGERPRINT, 443)
    assert (second.user, second.uses_ipmi, second.open_port) == ("other", True, 623)
    assert second.password == Secret(env="BMC_PASSWORD")
    targets = {target.name: target for target in targets_of(cluster)}
    assert [targets[name].access for name in ("n1", "n1:bmc", "n2:bmc")] == ["ssh", "redfish", "ipmi"]
    assert targets["n1:bmc"].login.model_dump(exclude_none=True) == {}
    assert loads(dumps(cluster), name="again") == cluster


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("host: 10.0.9.2, access: ipmi", "host: 10.0.9.1", "10.0.9.1 is the BMC of"),
        ("access: ipmi", "access: snmp", "expected redfish or ipmi"),
        ("cipher_suite: 17", "cipher_suite: 0", "expected"),
        (f'fingerprint: "{FINGERPRINT}"', f'fingerprint: "{FINGERPRINT}", ca: x', "give ca or fingerprint, not both"),
        ("{env: BMC_PASSWORD}", "hunter2", "password"),
        ("{host: 10.0.9.2, access", "{access", "host"),
    ],
)
def test_mistakes(before: str, after: str, message: str) -> None:
    assert before in FILE
    with pytest.raises(ClusterFileError) as raised:
        loads(FILE.replace(before, after), name="cluster.yaml")
    assert message in raised.value.message
    assert "hunter2" not in raised.value.message
