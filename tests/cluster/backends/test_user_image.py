"""An image of the user's as what nodes run in: what is asked of it, and how a plan names it."""

import io
import shlex
import zipfile
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kafka.installation import find
from cluster.systems.kinds import SettingError, SystemRequest
from cluster.systems.registry import system_named
from harness.commands.run import compose
from harness.errors import PlanError
from harness.plan.document import from_document

pytestmark = pytest.mark.slow

JARS = ("kafka_2.13-4.3.1", "kafka-raft-4.3.1", "log4j-core-2.25.4", "log4j-slf4j-impl-2.25.4")
PLAN = {"backend": "docker", "faults": ["kill"], "duration_s": 30}
KAFKA = {**PLAN, "system": "apache-kafka", "workload": "set"}
NODE = Placement(
    name="n1",
    node_id=1,
    run_id="r",
    folder=PurePosixPath("/runs/r/nodes/n1"),
    interpreter="/ours/python",
    client=Endpoint(1, "10.0.0.1", 9092),
    controller=Endpoint(1, "10.0.0.1", 9093),
    voters=(Endpoint(1, "10.0.0.1", 9093),),
    brokers=(),
    routes=(),
)


def jar() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("kafka/kafka-version.properties", "commitId=abc\nversion=4.3.1-mine\n")
    return made.getvalue()


class PaperImage:
    """Answers as programs of an image would."""

    name = "mine:1"
    id = "sha256:0123456789abcdef"

    def __init__(self, answers: dict[str, bytes], environment: dict[str, str] | None = None):
        self.answers = answers
        self.environment = environment or {}
        self.asked: list[str] = []

    def run(self, command) -> bytes:
        self.asked.append(shlex.join(command))
        if self.asked[-1] not in self.answers:
            raise SettingError(f"image {self.name}: {self.asked[-1]}: no such thing")
        return self.answers[self.asked[-1]]


def with_release(home: str = "/opt/kafka", java: str = "java", jars=JARS) -> dict[str, bytes]:
    names = "".join(f"{name}.jar\n" for name in (*jars, "kafka-clients-4.3.1"))
    clients = f"{home}/libs/kafka-clients-4.3.1.jar"
    return {f"ls {home}/libs": names.encode(), f"{java} -version": b"", f"cat {clients}": jar()}


def request(image: PaperImage, **options: str) -> SystemRequest:
    return SystemRequest({}, {"image": image.name, **options}, image=image)


def test_kafka_runs_by_the_java_and_the_release_of_the_image_and_sees_nothing_of_this_machine():
    image = PaperImage(with_release(java="/jdk/bin/java"), {"JAVA_HOME": "/jdk"})
    of = system_named("apache-kafka").create(request(image))
    assert (of.image, of.reads) == (image.id, ())
    start = of.files(NODE)["start.json"]
    assert '"/jdk/bin/java"' in start
    assert '"/opt/kafka/libs/*"' in start
    assert of.command(NODE)[:2] == ("/ours/python", "-m"), "which enters the image's root"


def test_the_release_may_lie_elsewhere_and_java_on_the_path():
    image = PaperImage(with_release(home="/srv/k"))
    found = find({"home": "/srv/k"}, image)
    assert (found.java, str(found.libraries), found.folders) == ("java", "/srv/k/libs", ())


@pytest.mark.parametrize(
    ("image", "options", "said"),
    [
        (PaperImage({}), {}, "image mine:1: ls /opt/kafka/libs: no such thing"),
        (PaperImage(with_release(jars=JARS[:3])), {}, "mine:1: /opt/kafka/libs: no whole release"),
        (PaperImage(with_release(java="j")), {}, "image mine:1: java -version: no such thing"),
        (PaperImage(with_release()), {"version": "4.3.1"}, "an image holds its release"),
        (PaperImage(with_release()), {"home": "k"}, "k is no absolute path of the image"),
    ],
)
def test_an_image_that_no_node_of_kafka_could_run_in_is_refused(image, options, said):
    with pytest.raises(SettingError, match=said):
        find(options, image)


def test_our_node_runs_by_the_python_of_the_image():
    image = PaperImage({"python3 -c 'import cluster.node.process'": b""})
    of = system_named("kraft").create(request(image))
    assert (of.image, of.command(NODE)[:3]) == (image.id, ("python3", "-m", "cluster.node"))
    with pytest.raises(SettingError, match="image mine:1: python3 -c"):
        system_named("kraft").create(request(PaperImage({})))


def test_the_versions_of_a_run_name_the_build_and_its_image():
    named = system_named("apache-kafka").versions(request(PaperImage(with_release())))
    assert named == {
        "apache-kafka": "4.3.1-mine, commit abc, image mine:1 sha256:0123456789ab",
        "image": "mine:1 sha256:0123456789abcdef",
    }
    image = PaperImage({})
    image.run = lambda _: b"0.1.0\n"
    named = system_named("kraft").versions(request(image))
    assert named["kraft"] == "0.1.0, image mine:1 sha256:0123456789ab"
    assert system_named("kraft").versions(SystemRequest({}, {})) == {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"backend": "local"}, "nodes of an image run on --backend docker only, not on local"),
        ({"backend": "sim"}, "nodes of an image run on --backend docker only, not on sim"),
        ({"system": "mixed", "workload": "set"}, "system mixed runs in no image of yours"),
        ({"system_options": {"image": ""}}, "the name of an image is missing"),
        ({"system_options": {"imag": "x"}}, "did you mean 'image'"),
    ],
)
def test_a_plan_for_which_an_image_makes_no_sense_is_refused(changed, said):
    with pytest.raises(PlanError, match=said):
        from_document({**PLAN, "system_options": {"image": "mine:1"}, **changed})


def test_an_image_is_an_option_of_the_system_and_of_the_command_line():
    asked = {"campaign": "quick", "backend": "docker", "image": "mine:1"}
    assert compose(asked)["system_options"] == {"image": "mine:1"}
    plan = from_document({**KAFKA, "system_options": {"image": "mine:1"}})
    assert from_document(plan.to_json()) == plan


def test_a_run_of_an_image_that_is_looked_for_in_the_simulated_world_leaves_the_image_out():
    plan = from_document({**PLAN, "system_options": {"image": "mine:1"}})
    assert "system_options" not in replace(plan, backend="sim").to_json()
