"""Connections that are encrypted, and whom they trust."""

from __future__ import annotations

import datetime as dt
import ipaddress
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.integration.mysql_source import changes, reading, source_of

from headwater.errors import HeadwaterError, Usage
from headwater.options import Secret
from headwater.sources.mysql import MySql
from headwater.sources.mysql.connection import connect
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server


class Authority:
    """Signs certificates, and writes them where a server of another user can read them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._build(self.name, self.key, authority=True)
        self.file = self._write(f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, host: str) -> tuple[str, str]:
        """(certificate, key) for a server at this address."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._build(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]), key, host=host)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._write("server.pem", certificate.public_bytes(serialization.Encoding.PEM)), self._write(
            "key.pem", pem
        )

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, host: str = "", *, authority: bool = False
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if host:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o644)
        return str(path)


@pytest.fixture(scope="module")
def certificates() -> Iterator[tuple[Authority, Authority]]:
    """Ours, and a stranger's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Authority(Path(folder), "ours"), Authority(Path(folder), "strangers")


@pytest.fixture(scope="module")
def secure(mysql: MySqlServer, certificates: tuple[Authority, Authority]) -> Iterator[MySqlServer]:
    ours = certificates[0]
    certificate, key = ours.issue("127.0.0.1")
    settings = {"server-id": "9", "ssl-ca": ours.file, "ssl-cert": certificate, "ssl-key": key}
    with MySqlServer(mysql.binaries, settings) as server:
        server.execute(
            "create database shop",
            "create table shop.t (id int primary key, v longtext)",
            "create user guarded identified by 'geheim' require ssl",
            "grant all privileges on *.* to guarded",
        )
        yield server


def guarded(server: MySqlServer, **options: str) -> MySql:
    return source_of(server, "shop", url=Secret(server.url(user="guarded", password="geheim")), **options)


@pytest.mark.parametrize("mode", ["preferred", "required", "verify_ca", "verify_identity"])
def test_the_log_is_read_over_tls(secure: MySqlServer, certificates: tuple[Authority, Authority], mode: str) -> None:
    source = guarded(secure, ssl_mode=mode, ssl_ca=certificates[0].file if mode.startswith("verify") else "")
    with connect(source.options) as server:
        assert server.rows("show status like 'Ssl_cipher'")[0][1]
    with reading(source) as log:
        secure.execute("insert into shop.t values (1, repeat('x', 300000))", "delete from shop.t")
        assert changes(source, log)[0]["after"] == {"id": 1, "v": "x" * 300_000}


def test_a_server_that_others_vouch_for_is_not_trusted(
    secure: MySqlServer, certificates: tuple[Authority, Authority]
) -> None:
    with pytest.raises(HeadwaterError, match="certificate") as refused:
        guarded(secure, ssl_mode="verify_ca", ssl_ca=certificates[1].file).tables()
    assert "geheim" not in str(refused.value)
    # The certificate is for 127.0.0.1.
    elsewhere = guarded(secure, ssl_mode="verify_identity", ssl_ca=certificates[0].file, host="localhost")
    with pytest.raises(HeadwaterError, match="certificate"):
        elsewhere.tables()
    with pytest.raises(Usage, match="refuses the account"):
        guarded(secure, ssl_mode="disabled").tables()
    with pytest.raises(Usage, match="ssl_ca"):
        guarded(secure, ssl_mode="verify_ca", ssl_ca="/nowhere.pem").tables()
