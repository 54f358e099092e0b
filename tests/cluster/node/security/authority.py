"""Certificates for tests, made by trustme, and listeners that use them."""

from pathlib import Path

import trustme

NODE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = 'username="node" password="peers only" user_node="peers only" user_alice="wonderland"'


class Authority:
    """A certificate authority and the files that its certificates are in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.ca_file)

    def key_store(self, name: str, *identities: str, **subject: str) -> Path:
        """A file with key and chain for these host names, or 127.0.0.1."""
        path = self.folder / f"{name}.pem"
        certificate = self._ca.issue_cert(*(identities or ("127.0.0.1", "localhost")), **subject)
        certificate.private_key_and_cert_chain_pem.write_to_path(path)
        return path


def secured(protocol: str, authority: Authority | None, mechanism: str = "PLAIN") -> dict:
    """Node settings with both listeners behind one protocol and one mechanism."""
    settings: dict[str, object] = {
        "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:{protocol}"
    }
    if protocol.endswith("SSL"):
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = authority.key_store("node")
        settings["ssl.truststore.location"] = authority.ca_file
    if protocol.startswith("SASL"):
        module = NODE if mechanism == "PLAIN" else SCRAM
        settings["sasl.enabled.mechanisms"] = mechanism
        settings["sasl.mechanism.controller.protocol"] = mechanism
        settings["sasl.mechanism.inter.broker.protocol"] = mechanism
        for listener in ("client", "controller"):
            key = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = f"{module} required {USERS};"
    return settings
