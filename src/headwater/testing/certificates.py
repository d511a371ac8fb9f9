"""Certificates for servers on the loopback interface: an authority of their own, and what it has signed."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path


def write_certificates(folder: Path) -> Path:
    """`ca.pem` for clients, and the server's key with its certificate in one file, whose path is returned."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = dt.datetime.now(dt.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("test authority", "server")]

    def builder(number: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(names[number])
            .issuer_name(names[0])
            .public_key(keys[number].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        )

    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    signed = [builder(0), builder(1).add_extension(address, critical=False)]
    authority, server = (each.sign(keys[0], hashes.SHA256()) for each in signed)
    pem = serialization.Encoding.PEM
    key = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    path = folder / "server.pem"
    path.write_bytes(key + server.public_bytes(pem) + authority.public_bytes(pem))
    path.chmod(0o600)
    return path
