"""A signature names who vouches for a run as it is; nothing else passes for one."""

import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from factory import make_run

from results.pipeline import judge
from results.signature import (
    KeyFileError,
    make_key,
    read_private_key,
    read_public_key,
    sign,
    signer_of,
)
from results.store import StoreError


@pytest.fixture
def key(tmp_path):
    return tmp_path / "key.pem"


@pytest.fixture
def trusted(key):
    return read_public_key(make_key(key))


def judged(root, **options):
    store = make_run(root, duration_s=20, rate_per_s=20, **options)
    judge(store)
    return store


def test_a_private_key_is_its_owners_alone_and_never_overwritten(key, trusted):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        make_key(key)


def test_a_signed_run_has_a_signer(tmp_path, key, trusted):
    store = judged(tmp_path / "runs")
    assert signer_of(store, [trusted]) == (None, "it is not signed")
    sign(store, read_private_key(key))
    assert signer_of(store, [trusted]) == ("key.pem.pub", "")
    assert signer_of(store, []) == (
        None,
        "it is signed with a key that the policy does not name",
    )


def test_a_run_of_a_killed_harness_and_one_that_was_changed_are_not_signed(tmp_path, key, trusted):
    private = read_private_key(key)
    with pytest.raises(StoreError, match="not recorded to its end"):
        sign(judged(tmp_path / "a", ended=False), private)
    with pytest.raises(StoreError, match="not judged"):
        sign(make_run(tmp_path / "b", duration_s=20), private)
    store = judged(tmp_path / "c")
    store.journal_path.write_bytes(store.journal_path.read_bytes() + b"\n")
    with pytest.raises(StoreError, match=r"history\.jsonl is not what was recorded"):
        sign(store, private)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"-----BEGIN PRIVATE KEY-----\nAA\n", b"\0" * 70_000]
)
def test_a_file_that_is_no_key_is_one_line(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    for read in (read_private_key, read_public_key):
        with pytest.raises(KeyFileError) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path}: ")
        assert "\n" not in str(refused.value)


def test_a_key_of_another_kind_is_refused(tmp_path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = tmp_path / "rsa", tmp_path / "rsa.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    with pytest.raises(KeyFileError, match="not of the kind Ed25519"):
        read_private_key(private)
    with pytest.raises(KeyFileError, match="not of the kind Ed25519"):
        read_public_key(public)
