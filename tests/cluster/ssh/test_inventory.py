"""An inventory is checked as a whole, and what is wrong is one line."""

import json

import pytest

from cluster.backends.base import BackendError
from cluster.backends.ssh.inventory import Inventory, read_inventory

pytestmark = pytest.mark.slow

GOOD = '[defaults]\nuser = "kp"\nsudo = true\n[[hosts]]\naddress = "a"\n[[hosts]]\naddress = "b"\n'


def inventory(tmp_path, text):
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    return read_inventory(path)


def test_defaults_are_every_hosts_and_a_host_may_differ(tmp_path):
    read = inventory(tmp_path, GOOD + 'user = "other"\nport = 2222\nkey = "keys/b"\n')
    first, second = read.hosts
    assert (first.where, first.sudo, first.key) == ("kp@a:22", True, None)
    assert (second.where, second.sudo) == ("other@b:2222", True)
    assert second.key == str(tmp_path / "keys/b")


def test_unknown_host_keys_are_not_accepted_unless_configured(tmp_path):
    assert not inventory(tmp_path, GOOD).accept_new_host_keys
    assert inventory(tmp_path, "accept_new_host_keys = true\n" + GOOD).accept_new_host_keys


def test_a_user_without_a_name_gives_one(tmp_path, monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found: 4321")

    monkeypatch.setattr("getpass.getuser", unknown)
    with pytest.raises(BackendError, match=r"hosts.toml: .*user: who runs this has no name here"):
        inventory(tmp_path, '[[hosts]]\naddress = "a"')
    assert inventory(tmp_path, '[[hosts]]\naddress = "a"\nuser = "b"').hosts[0].user == "b"


def test_what_is_stored_is_read_again(tmp_path):
    read = inventory(tmp_path, GOOD)
    assert Inventory.from_json(json.dumps(read.to_json())) == read


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", '{"hosts": [{"adress": 1}]}'])
def test_a_damaged_stored_inventory_is_one_line(text):
    with pytest.raises(BackendError, match="no stored inventory"):
        Inventory.from_json(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: an inventory is a table"),
        ("grace_s = 60", r"hosts must be one or more tables: \[\[hosts\]\]"),
        ("hosts = 3", "hosts must be one or more tables"),
        ("nodes = 3", "unknown key 'nodes'"),
        ('[[hosts]]\nuser = "kp"', "hosts 1: address is missing"),
        (GOOD + "prot = 3", "hosts 2: unknown key 'prot'; did you mean 'port'"),
        (GOOD + 'port = "22"', "hosts 2: port must be a whole number from 1 to 65535, not '22'"),
        (GOOD + "port = 70000", "hosts 2: port must be a whole number from 1 to 65535, not 70000"),
        (GOOD + "sudo = 1", "hosts 2: sudo must be true or false, not 1"),
        (GOOD + 'workdir = "kp"', "hosts 2: workdir must be absolute"),
        (GOOD + 'workdir = "/"', "hosts 2: workdir must be absolute"),
        (GOOD + 'workdir = "/tmp/../etc"', "hosts 2: workdir must be absolute"),
        ("grace_s = 5\n" + GOOD, "grace_s must be longer than reconnect_s"),
        ("reconnect_s = -1\n" + GOOD, "reconnect_s must be a number from 0.001 to 3600, not -1"),
        ('known_hosts = ""\naccept_new_host_keys = "no"\n' + GOOD, "true or false"),
        (GOOD + "accept_new_host_keys = true", "hosts 2: accept_new_host_keys .* top of the file"),
        ('[defaults]\nknown_hosts = "x"\n[[hosts]]\naddress = "a"', "defaults.known_hosts .* top"),
        ('[defaults]\nprot = 1\n[[hosts]]\naddress = "a"', "defaults: unknown key 'prot'"),
        ('user = "kp"\n' + GOOD, r"user is a host's: put it below \[defaults\] or \[\[hosts\]\]"),
        ("[[hosts]\n", "cannot be read as an inventory"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path, text, message):
    with pytest.raises(BackendError, match=message) as refused:
        inventory(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path}/hosts.toml: ")
    assert "\n" not in str(refused.value)


def test_a_missing_inventory_is_one_line(tmp_path):
    with pytest.raises(BackendError, match=r"no\.toml: No such file"):
        read_inventory(tmp_path / "no.toml")
