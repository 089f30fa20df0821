"""TLS of a recording: the broker's keys, made for it, and the key log that decrypts the capture.

A Java broker writes no key log by itself. An agent in its JVM does
(https://github.com/neykov/extract-tls-secrets, from Maven Central), so the keys of every client's
sessions are there, in the format of NSS.
"""

import subprocess
from pathlib import Path
from typing import NamedTuple

HOST = "localhost"  # a name, because clients send no address as SNI
STORE_WORD = "kdissect"
VALID_DAYS = "3650"
KEYS = {
    "rsa": ("-keyalg", "RSA", "-keysize", "2048"),
    "ec": ("-keyalg", "EC", "-groupname", "secp256r1"),
}
KEYTOOL_TIMEOUT_SECONDS = 60
SAN = f"san=dns:{HOST},ip:127.0.0.1,ip:::1"


class Tls(NamedTuple):
    """TLS configuration of a scenario's broker."""

    jvm_options: tuple[str, ...] = ()
    bytes_a_key: int = 0  # after so many the broker sends a KeyUpdate; 0: as Java has it
    has_key_log: bool = True
    has_keys_inside: bool = False  # the key log is a block of the capture
    is_terminated: bool = False  # by a proxy before the broker


class KeyStore(NamedTuple):
    """The broker's keys, one RSA and one EC, and their certificates, which are their own CAs."""

    path: Path
    certificates: str

    @classmethod
    def make(cls, directory: Path) -> "KeyStore":
        """Make new keys in a directory."""
        store = directory / "broker.p12"
        common = ("-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE_WORD)
        texts = []
        for alias, algorithm in KEYS.items():
            name = ("-alias", alias, "-dname", f"CN={HOST}, OU={alias}, O=kdissect")
            more = ("-validity", VALID_DAYS, "-ext", SAN, "-ext", "bc=ca:true")
            _keytool("-genkeypair", *common, *name, *algorithm, *more)
            texts.append(_keytool("-exportcert", "-rfc", *common, "-alias", alias))
        return cls(store, "".join(texts).replace("\r", ""))

    def pem_files(self) -> list[Path]:
        """Files with a key and its certificate each, as OpenSSL reads them."""
        made = []
        for alias in KEYS:
            single = self.path.with_name(f"{alias}.p12")
            _keytool(
                *("-importkeystore", "-srckeystore", str(self.path), "-srcstorepass", STORE_WORD),
                *("-srcalias", alias, "-destkeystore", str(single), "-deststoretype", "PKCS12"),
                *("-deststorepass", STORE_WORD),
            )
            made.append(single.with_suffix(".pem"))
            command = ["openssl", "pkcs12", "-in", str(single), "-nodes", "-out", str(made[-1])]
            command += ["-passin", f"pass:{STORE_WORD}"]
            subprocess.run(
                command, capture_output=True, timeout=KEYTOOL_TIMEOUT_SECONDS, check=True
            )
        return made


def broker_properties(store: KeyStore) -> dict[str, str]:
    """Key configuration of a broker; both versions of TLS, all suites of Java."""
    return {
        "ssl.keystore.location": str(store.path),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_WORD,
        "ssl.key.password": STORE_WORD,
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }


def jvm_options(tls: Tls, directory: Path, logger: Path | None, key_log: Path) -> list[str]:
    """JVM options of a broker."""
    options = list(tls.jvm_options)
    if logger is not None:
        options.append(f"-javaagent:{logger}={key_log}")
    if tls.bytes_a_key:
        limits = directory / "java.security"
        limits.write_text(
            f"jdk.tls.keyLimits=AES/GCM/NoPadding KeyUpdate {tls.bytes_a_key}, "
            f"ChaCha20-Poly1305 KeyUpdate {tls.bytes_a_key}\n"
        )
        options.append(f"-Djava.security.properties={limits}")
    return options


def _keytool(*arguments: str) -> str:
    done = subprocess.run(
        ["keytool", *arguments],
        capture_output=True,
        text=True,
        timeout=KEYTOOL_TIMEOUT_SECONDS,
        check=True,
    )
    return done.stdout
