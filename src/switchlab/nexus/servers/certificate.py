"""The switch's certificate for NX-API, signed by itself."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID = timedelta(days=3650)


def ensure_certificate(folder: Path, *, name: str, host: str) -> tuple[Path, Path]:
    """Return the files of a certificate and its key, making them if there are none; only the owner reads the key."""
    certificate, key = folder / "nxapi.crt", folder / "nxapi.key"
    if not (certificate.exists() and key.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        private = ec.generate_private_key(ec.SECP256R1())
        _write(key, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        _write(certificate, _sign(private, name, host).public_bytes(Encoding.PEM))
    return certificate, key


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


def _sign(key: ec.EllipticCurvePrivateKey, name: str, host: str) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name), _general_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, complete or not at all."""
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)
