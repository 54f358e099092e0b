"""The principal of a client that showed a certificate (DefaultKafkaPrincipalBuilder, KIP-37).

It is `User:` and the certificate's subject, as Java writes it (X500Principal.getName, RFC 2253):
the last part of the name first, with a keyword where RFC 2253 has one, and else with the number of
the attribute and the bytes of its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # it is not read where no client shows a certificate
    from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = {**{char: f"\\{char}" for char in ',=+<>#;"\\'}, "\0": "\\00"}
_SPACE: Final = " \r"


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER. Raises ValueError for one that is none."""
    from cryptography import x509  # noqa: PLC0415  (see above)

    return distinguished_name(x509.load_der_x509_certificate(certificate).subject)


def distinguished_name(name: x509.Name) -> str:
    """Return a name as Java writes it."""
    parts = ("+".join(map(_attribute, part)) for part in reversed(name.rdns))
    return ",".join(parts)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{attribute.oid.dotted_string}=#{_encoded_value(attribute).hex()}"
    text = "".join(_ESCAPED.get(char, char) for char in attribute.value)
    begin = len(text) - len(text.lstrip(_SPACE))
    end = len(text.rstrip(_SPACE))
    spaces = text if begin >= end else text[:begin]
    after = "" if begin >= end else text[end:]
    return f"{keyword}={_each_escaped(spaces)}{text[begin:end]}{_each_escaped(after)}"


def _each_escaped(spaces: str) -> str:
    return "".join(f"\\{char}" for char in spaces)


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the DER of an attribute's value: a name of it alone is SEQ(SET(SEQ(oid, value)))."""
    from cryptography import x509  # noqa: PLC0415  (see above)

    content = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        content = content[_content_at(content) :]
    oid_bytes = _content_at(content) + content[1]  # an attribute's number is short
    return content[oid_bytes:]


def _content_at(encoded: bytes) -> int:
    """Return where the content of a DER value begins: its length is one byte, or more follow."""
    length = encoded[1]
    return 2 if length < 0x80 else 2 + (length & 0x7F)
