from __future__ import annotations

import pytest

from railbed.transport.scrub import scrub


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (b"password: hunter2", b"password: <removed>"),
        (b'{"api_key": "abc123", "mtu": 9000}', b'{"api_key": "<removed>", "mtu": 9000}'),
        (
            b"snmp-server community s3cret-ro group network-operator",
            b"snmp-server community <removed> group network-operator",
        ),
        (
            b"username admin password 5 $5$abcdefgh role network-admin",
            b"username admin password 5 <removed> role network-admin",
        ),
        (b"AUTH_TOKEN=xyz", b"AUTH_TOKEN=<removed>"),
        (b"a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\nz", b"a\n<removed>\nz"),
        (b"-----BEGIN RSA PRIVATE KEY-----\ncut short", b"<removed>"),
    ],
)
def test_secrets_go(text: bytes, clean: bytes) -> None:
    assert scrub(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        b"rx_prio3_pause: 12\nrx_bytes: 99",
        b'[{"ifname":"eth0","mtu":9000}]',
        b"token ring bridge",
        b"\xff\xfe\x00",
    ],
)
def test_the_rest_stays(text: bytes) -> None:
    assert scrub(text) == text
