from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.model.private import scrub


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
            b"snmp-server user admin network-admin auth md5 0xdead priv aes-128 0xbeef localizedkey",
            b"snmp-server user admin network-admin auth md5 <removed> priv aes-128 <removed> localizedkey",
        ),
        (
            b'tacacs-server host 10.0.0.9 key 7 "fewhg123" port 49',
            b'tacacs-server host 10.0.0.9 key 7 "<removed>" port 49',
        ),
        (b'radius-server key 7 "fewhg123"', b'radius-server key 7 "<removed>"'),
        (b"  key-string 7 072e20", b"  key-string 7 <removed>"),
        (
            b"username admin password 5 $5$abcdefgh role network-admin",
            b"username admin password 5 <removed> role network-admin",
        ),
        (b"AUTH_TOKEN=xyz", b"AUTH_TOKEN=<removed>"),
        (b"a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\nz", b"a\n<removed>\nz"),
        (b"-----BEGIN RSA PRIVATE KEY-----\ncut short", b"<removed>"),
        (b"HF_TOKEN=hf_x LANG=C", b"HF_TOKEN=<removed> LANG=C"),
        (b"AWS_SECRET_ACCESS_KEY=ab/c+d=", b"AWS_SECRET_ACCESS_KEY=<removed>"),
        (b"DB_PASSWORD=a,b;c}d", b"DB_PASSWORD=<removed>"),
        (b"export WANDB_API_KEY='a b' x", b"export WANDB_API_KEY='<removed>' x"),
        (b"client_secret = x, scope = y", b"client_secret = <removed>, scope = y"),
        (b"Authorization: Bearer abc.def", b"Authorization: Bearer <removed>"),
        (b"curl -H 'authorization: Basic YTpi' x", b"curl -H 'authorization: Basic <removed>' x"),
        (b"proxy https://me:p@ss@host:80/x", b"proxy https://me:<removed>@host:80/x"),
        (b'password: "two words" z', b'password: "<removed>" z'),
        (rb'password: "two \" words" z', b'password: "<removed>" z'),
        (b'password: "cut', b"password: <removed>"),
        (b"password: {SSHA}abc", b"password: <removed>"),
        (b'{"Authorization": "Bearer a b"}', b'{"Authorization": "<removed>"}'),
        (rb'{"said": "password: \"two words\" z"}', rb'{"said": "password: \"<removed>\" z"}'),
        (rb'{"said": "{\"token\": \"a\"}"}', rb'{"said": "{\"token\": \"<removed>\"}"}'),
        (b'==> a <==\n{\n "token": "a"\n}\n==> b <==\n', b'==> a <==\n{\n "token": "<removed>"\n}\n==> b <==\n'),
        (b'{"token": "a"}\n{"token": 1}\nTOKEN=a\n', b'{"token": "<removed>"}\n{"token": 1}\nTOKEN=<removed>\n'),
        (rb'[{"token": "a"}, {"cut": "token=b\"c", "d', rb'[{"token": "<removed>"}, {"cut": "token=<removed>", "d'),
        (b"password: \xff\xfe \xff", b"password: <removed> \xff"),
        (rb'{"said": "a\nb \"\u0070assword\": \"x y\""}', rb'{"said": "a\nb \"password\": \"<removed>\""}'),
        (
            rb'{"said": "a\n\u0074oken=x", "\u0074oken": "a\nb"}',
            rb'{"said": "a\ntoken=<removed>", "\u0074oken": "<removed>"}',
        ),
    ],
)
def test_secrets_go(text: bytes, clean: bytes) -> None:
    assert scrub(text) == clean
    assert scrub(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        b"rx_prio3_pause: 12\nrx_bytes: 99",
        b'[{"ifname":"eth0","mtu":9000}]',
        b"token ring bridge",
        b"token bucket filter",
        b"the secretary: a person",
        b"tokens_per_second: 12\ntoken_errors: 5",
        b"Permission denied (publickey,password).",
        b"link/ether 00:11:22:33:44:55 brd ff:ff:ff:ff:ff:ff",
        b"driver: mlx5_core\nbus-info: 0000:03:00.0\nPKEY: 0xffff\nprio-tc 0:0 1:1\nkey: 0x1234",
        b"rendezvous at tcp://10.0.0.1:29500 and http://[::1]:80/a@b",
        b"login: {password: {env: HUNTER}}",
        b"password:\n  env: HUNTER",
        b'{"token": 5, "secret": null, "password": [1, "a"], "api_key": {"a": true}}',
        b'text, then {"token": 5, "secret": null, "password": [1, "a"]}',
        b'{"password:": 5, "token": -1.5e3}',
        b"\xff\xfe\x00",
    ],
)
def test_the_rest_stays(text: bytes) -> None:
    assert scrub(text) == text


WORDS = ["password", "token", ":", "=", " ", '"', "'", "\\", "\n", "Bearer ", "x1y2z3", "://a:b@c", "{", "}", ",", "5"]
TEXTS = st.text() | st.lists(st.sampled_from(WORDS)).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


def shape(value: Any) -> Any:
    match value:
        case dict():
            return {name: shape(inner) for name, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case str():
            return "text"
        case _:
            return value


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_json_stays_json_of_the_same_shape(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert shape(json.loads(scrub(text.encode()))) == shape(value)


@given(st.binary() | TEXTS.map(str.encode))
def test_any_bytes_are_taken(text: bytes) -> None:
    assert isinstance(scrub(text), bytes)


@pytest.mark.parametrize(
    "text", [b"a", b"token ", b"password:", b"[1,", b"\n[1] token x", b"://", b'password="', b"secret_", b"token:\\"]
)
def test_a_long_text_takes_no_age(text: bytes) -> None:
    start = time.process_time()
    scrub(text * (2**20 // len(text)))
    assert time.process_time() - start < 5
