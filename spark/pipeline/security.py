"""Security, told once. Rule: the table `security` is translated for both kinds of clients, Spark's (Java) and the
driver's (librdkafka), so the two can't disagree; a config in `kafka` or `client` wins over what is translated.

The driver reads the files, and Spark's clients get their content: no executor needs a file. A password is best given
as `${NAME}`, a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import SettingsError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
FILES = ("ca_file", "certificate_file", "key_file")
KEYS = ("protocol", "mechanism", "username", "password", *FILES, "key_password", "verify_hostname")
PEM_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
PKCS_8 = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
PEM_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# What Spark leaves out where it prints the options of a source or a sink: plans, the UI, event logs. The first word is
# Spark's own default.
REDACTED_OPTIONS = r"(?i)url|password|sasl[.]jaas|keystore[.]key"


def check(security: Mapping[str, str]) -> None:
    """Refuse a table that no client could use.

    Raises:
        SettingsError: a key or value is unknown, or one that belongs to another is missing.
    """
    for key in security:
        if key not in KEYS:
            raise SettingsError(f"security: there is no {key}; there are {', '.join(KEYS)}")
    if not security:
        return
    protocol = security.get("protocol", "")
    if protocol not in PROTOCOLS:
        raise SettingsError(f"security: protocol is {protocol!r}, and can be {', '.join(PROTOCOLS)}")
    if protocol.startswith("SASL_"):
        if security.get("mechanism") not in LOGIN_MODULES:
            raise SettingsError(
                f"security: mechanism is {security.get('mechanism', '')!r}, and can be {', '.join(LOGIN_MODULES)}; "
                "others go into kafka and client"
            )
        for key in ("username", "password"):
            if not security.get(key):
                raise SettingsError(f"security: {key} is not set, and {protocol} needs it")
    for key in ("mechanism", "username", "password") if not protocol.startswith("SASL_") else ():
        if key in security:
            raise SettingsError(f"security: {key} is of no use with protocol {protocol}: it has to begin with SASL_")
    for key in (*FILES, "key_password", "verify_hostname") if not protocol.endswith("SSL") else ():
        if key in security:
            raise SettingsError(f"security: {key} is of no use with protocol {protocol}: it has to end with SSL")
    if "key_file" in security and "certificate_file" not in security:
        raise SettingsError("security: certificate_file is not set, and key_file needs it")
    if security.get("verify_hostname", "true") not in ("true", "false"):
        raise SettingsError("security: verify_hostname can be true or false")
    for key in FILES:
        if key in security and not Path(security[key]).is_file():
            raise SettingsError(f"security: there is no file {security[key]}, which {key} names")


def java_config(security: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a Java client."""
    if not security:
        return {}
    config = {"security.protocol": security["protocol"]}
    if security["protocol"].startswith("SASL_"):
        login = f"username={_quoted(security['username'])} password={_quoted(security['password'])}"
        module = LOGIN_MODULES[security["mechanism"]]
        config |= {"sasl.mechanism": security["mechanism"], "sasl.jaas.config": f"{module} required {login};"}
    if "ca_file" in security:
        config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _certificates(security["ca_file"])}
    if "certificate_file" in security:
        config |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _certificates(security["certificate_file"]),
            "ssl.keystore.key": _key(_key_file(security)),
        }
    if "key_password" in security:
        config["ssl.key.password"] = security["key_password"]
    if security.get("verify_hostname") == "false":
        config["ssl.endpoint.identification.algorithm"] = ""
    return config


def librdkafka_config(security: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a client of librdkafka."""
    if not security:
        return {}
    config = {"security.protocol": security["protocol"].lower()}
    if security["protocol"].startswith("SASL_"):
        config |= {
            "sasl.mechanism": security["mechanism"],
            "sasl.username": security["username"],
            "sasl.password": security["password"],
        }
    if "ca_file" in security:
        config["ssl.ca.location"] = security["ca_file"]
    if "certificate_file" in security:
        config |= {"ssl.certificate.location": security["certificate_file"], "ssl.key.location": _key_file(security)}
    if "key_password" in security:
        config["ssl.key.password"] = security["key_password"]
    if security.get("verify_hostname") == "false":
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config


def _key_file(security: Mapping[str, str]) -> str:
    """Return the file of the private key, which may stand in the certificate's own file."""
    return security.get("key_file", security["certificate_file"])


def _certificates(path: str) -> str:
    return "\n".join(_found(PEM_CERTIFICATE, path, "certificate"))


def _key(path: str) -> str:
    key = _found(PEM_KEY, path, "private key")[0]
    if not key.startswith(PKCS_8):
        raise SettingsError(
            f"security: the private key in {path} is not PKCS#8, as Java's clients want it: "
            "openssl pkcs8 -topk8 makes one"
        )
    return key


def _found(pattern: re.Pattern[str], path: str, what: str) -> list[str]:
    found = pattern.findall(Path(path).read_text(encoding="latin-1"))  # any file can be read so
    if not found:
        raise SettingsError(f"security: {path} has no {what} in PEM")
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
