"""A signature names who vouches for a file as it is; nothing else passes for one."""

import pytest

from results.gate.signature import Signers, SignersError, signer_of
from results.store.files import StoreError
from tests.gate.policies import SIGNER, make_key, sign, trust


@pytest.fixture
def signed(tmp_path):
    trust(tmp_path)
    path = tmp_path / "digests.jsonl"
    path.write_bytes(b"{}\n")
    return path


@pytest.fixture
def signers(signed):
    return Signers(signed.with_name("signers"), ("nobody@example.org", SIGNER))


def name(signed, signers):
    return signer_of(signed, signed.read_bytes(), signers, "run")


def test_a_signed_file_has_a_signer(signed, signers):
    assert name(signed, signers) == (None, "it is not signed")
    sign(signed, signed.with_name("release"))
    assert name(signed, signers) == (SIGNER, "")


def test_a_principal_that_was_not_asked_for_is_no_signer(signed, signers):
    sign(signed, signed.with_name("release"))
    others = Signers(signers.allowed, ("nobody@example.org",))
    signer, why = name(signed, others)
    assert (signer, "does not name" in why) == (None, True)


def test_a_key_that_its_file_does_not_allow_is_no_signer(signed, signers):
    make_key(signed.with_name("mine"))
    sign(signed, signed.with_name("mine"))
    assert name(signed, signers)[0] is None


def test_whatever_is_added_to_the_file_ends_its_signature(signed, signers):
    sign(signed, signed.with_name("release"))
    signed.write_bytes(signed.read_bytes() + b"\n")
    assert name(signed, signers) == (None, "its signature is not one of this run as it is now")


def test_a_signature_is_of_what_was_read(signed, signers):
    """Whoever can exchange the file meanwhile would show the gate one and ssh-keygen another."""
    sign(signed, signed.with_name("release"))
    assert signer_of(signed, b"forged\n", signers, "run")[0] is None


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ('valid-after="20200101",valid-before="20990101" ', True),
        ('namespaces="git,kraft*" ', True),
        ('valid-before="20200101" ', False),
        ('valid-after="20990101" ', False),
        ('namespaces="git" ', False),
        ("cert-authority ", False),
    ],
)
def test_a_key_signs_when_and_for_what_its_line_allows(signed, signers, options, good):
    sign(signed, signed.with_name("release"))
    key = signed.with_name("release.pub").read_text().strip()
    signers.allowed.write_bytes(f"# keys\r\n{SIGNER} {options}{key} of 2026\r\n".encode())
    signer, why = name(signed, signers)
    assert (signer == SIGNER, why.endswith("not for runs and now")) == (good, not good)


def test_a_link_is_no_signature(signed, signers):
    sign(signed, signed.with_name("release"))
    found = signed.with_name("digests.jsonl.sig")
    found.rename(signed.with_name("elsewhere"))
    found.symlink_to(signed.with_name("elsewhere"))
    with pytest.raises(StoreError, match="symbolic link"):
        name(signed, signers)


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 70_000, b"release@example.org\n"])
def test_a_file_without_the_key_of_a_principal_is_one_line(tmp_path, content):
    path = tmp_path / "signers"
    path.write_bytes(content)
    with pytest.raises(SignersError) as refused:
        Signers(path, (SIGNER,)).check()
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
