"""Folders that are formatted with the first voters of a quorum (KIP-853)."""

import asyncio
import random
import uuid
from functools import partial

import pytest
from click.testing import CliRunner

from cluster.node.config import load_config
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION_LEVEL
from cluster.node.controller.metadata.image_writer import read_bootstrap
from cluster.node.controller.metadata.scram_users import credential_of
from cluster.node.controller.records.kinds import FeatureLevelRecord
from cluster.node.format import main
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.quorum_state_store import write_bootstrap
from cluster.node.log.metadata.snapshot import BOOTSTRAP_ID, parse_snapshot
from cluster.node.meta_properties import formatted_cluster_id, identify
from cluster.node.ports import Endpoint
from cluster.node.runtime.disk import FileDisk
from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import ScramClientExchange, ScramServer
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text
from tests.cluster.node.controller.fakes import active
from tests.cluster.node.kraft.dynamic import voter_ids
from tests.cluster.node.kraft.test_bootstrap_crashes import voter_set
from tests.cluster.node.kraft.world import DIRECTORY, World

CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
IDS = [uuid_to_text(uuid.UUID(int=2000 + i, version=4)) for i in (1, 2, 3)]
CONTROLLERS = ",".join(f"{i}@h{i}:9093:{IDS[i - 1]}" for i in (1, 2, 3))


def formatted(tmp_path, *options, static=False, cluster_id="cluster.id=c\n"):
    config = tmp_path / "server.properties"
    setting = "voters=2@h2:9093" if static else "bootstrap.servers=h2:9093"
    config.write_text(
        f"process.roles=controller\nnode.id=2\n{cluster_id}listeners=CONTROLLER://h2:9093\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.{setting}\n"
        f"metadata.log.dir={tmp_path / 'data'}\n"
    )
    return CliRunner().invoke(main, ["--config", str(config), *options]), config


def version_and_voters(tmp_path):
    data = (tmp_path / "data" / CHECKPOINT).read_bytes()
    version, voters = parse_snapshot("x", BOOTSTRAP_ID, data).control
    return version.kraft_version, VoterSet.from_record(voters, "CONTROLLER")


def test_a_folder_is_formatted_with_the_first_voters(tmp_path):
    done, config = formatted(tmp_path, "--initial-controllers", CONTROLLERS)
    assert done.exit_code == 0, done.output
    assert IDS[1] in done.output
    version, voters = version_and_voters(tmp_path)
    assert (version, voters.ids) == (1, (1, 2, 3))
    assert voters.endpoint(3) == Endpoint(3, "h3", 9093)

    found = []
    on_disk(config, lambda disk: identify({"": disk}, "c", 2, random.Random(1), found.append))
    assert found == [{"": uuid_from_text(IDS[1])}]


def test_a_node_that_joins_has_no_checkpoint(tmp_path):
    assert formatted(tmp_path, "--no-initial-controllers")[0].exit_code == 0
    assert (tmp_path / "data" / "meta.properties").exists()
    assert not (tmp_path / "data" / CHECKPOINT).exists()


@pytest.mark.parametrize(
    ("options", "static", "message"),
    [
        ((), False, "give one of --standalone"),
        (("--standalone", "--no-initial-controllers"), False, "give one of"),
        (("--initial-controllers", "2@h2"), False, "expected id@host:port:directory, not '2@h2'"),
        (("--initial-controllers", f"1@h1:1:{IDS[0]}"), False, "node.id 2 is not among them"),
        (("--initial-controllers", f"2@a:1:{IDS[0]},2@b:1:{IDS[1]}"), False, "listed twice"),
        (("--standalone",), True, "static voters need no format"),
    ],
)
def test_what_cannot_be_is_reported_in_one_line(tmp_path, options, static, message):
    done, _ = formatted(tmp_path, *options, static=static)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.splitlines()) == 1


def on_disk(config, read):
    """What `read` finds in a formatted folder."""

    async def found():
        disk = FileDisk(load_config(config).metadata_log_dir, asyncio.get_running_loop())
        try:
            return read(disk)
        finally:
            disk.close()

    return asyncio.run(found())


@pytest.mark.parametrize(
    ("options", "static"), [(("--standalone",), False), ((), True)], ids=["dynamic", "static"]
)
def test_the_cluster_may_be_named_by_the_format_alone(tmp_path, options, static):
    done, config = formatted(tmp_path, "-t", "abc", *options, static=static, cluster_id="")
    assert done.exit_code == 0, done.output
    assert load_config(config).cluster_id == ""

    assert on_disk(config, formatted_cluster_id) == "abc"


def test_a_cluster_without_a_name_and_one_with_two_are_refused(tmp_path):
    done, _ = formatted(tmp_path, "--standalone", cluster_id="")
    assert (done.exit_code, "give --cluster-id, the same for" in done.output) == (2, True)
    done, _ = formatted(tmp_path, "--standalone", "--cluster-id", "d")
    assert (done.exit_code, "--cluster-id: 'd', but cluster.id is 'c'" in done.output) == (2, True)
    assert not (tmp_path / "data").exists()


def test_a_folder_is_not_formatted_twice(tmp_path):
    formatted(tmp_path, "--standalone")
    done, _ = formatted(tmp_path, "--standalone")
    assert (done.exit_code, "is formatted already" in done.output) == (2, True)


@pytest.mark.slow
def test_a_quorum_begins_with_its_bootstrap_checkpoint_and_puts_it_into_the_log():
    world = World(3)
    world.dynamic = True
    voters = voter_set(*(ReplicaKey(i, node.directory_id) for i, node in world.nodes.items()))
    world.voters = VoterSet(())
    for node in world.nodes.values():
        write_bootstrap(node.disk, DIRECTORY, voters, 0, lambda error: None)
    world.scheduler.run_for(100)
    world.start()
    leader = world.elect()
    world.commit(leader, "first")
    world.settle()
    for node in world.nodes.values():
        assert voter_ids(node) == (1, 2, 3)
        assert node.log.control.voters_offset >= 0, "in the log, not in the checkpoint alone"
        assert node.listener.loaded == []


@pytest.mark.parametrize(("release", "level"), [("4.0", 25), ("4.3", 30)])
def test_a_folder_is_formatted_with_the_features_of_a_release(tmp_path, release, level):
    done, config = formatted(tmp_path, "--standalone", "--release-version", release)
    assert done.exit_code == 0, done.output

    records = on_disk(config, read_bootstrap)
    levels = {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}
    assert levels["metadata.version"] == level
    assert version_and_voters(tmp_path)[1].ids == (2,)


def test_a_cluster_begins_with_the_users_of_its_folder(tmp_path):
    users = [f"SCRAM-SHA-{size}=[name=alice,password=wonderland]" for size in (256, 512)]
    options = [part for user in users for part in ("--add-scram", user)]
    done, config = formatted(tmp_path, "--standalone", *options)
    assert done.exit_code == 0, done.output
    assert b"wonderland" not in (tmp_path / "data" / "bootstrap.checkpoint").read_bytes()

    node = active(bootstrap=on_disk(config, read_bootstrap))
    state = node.controller.image.state
    assert state.features.get("metadata.version") == METADATA_VERSION_LEVEL
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        server = ScramServer(mechanism, partial(credential_of, state, mechanism))
        client = ScramClientExchange(mechanism, Credentials("alice", "wonderland"))
        token = server.answer(client.first())
        assert client.next(server.answer(client.next(token))) is None


@pytest.mark.parametrize("users", [["nobody"], ["SCRAM-SHA-256=[name=alice,password=secret]"] * 2])
def test_users_that_cannot_be_are_refused_before_anything_is_written(tmp_path, users):
    done, _ = formatted(tmp_path, "--standalone", *(p for u in users for p in ("--add-scram", u)))
    assert done.exit_code == 2
    assert "--add-scram: " in done.output
    assert "secret" not in done.output
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_release_that_is_not_known_is_reported_in_one_line(tmp_path):
    done, _ = formatted(tmp_path, "--standalone", "--release-version", "3.9")
    assert done.exit_code == 2
    assert "--release-version: '3.9' is not one of 4.0, 4.1, 4.2, 4.3" in done.output
    assert not (tmp_path / "data" / "meta.properties").exists()
