"""The names of Kafka's settings are those that Kafka's own program lists."""

import re
import subprocess

import pytest

from cluster.node.controller.configs.definitions import DOCUMENTED
from cluster.systems.kafka.installation import home_of, java
from tests.kafka_release import release

pytestmark = pytest.mark.cluster


def test_every_documented_setting_is_known():
    libraries = home_of(release()) / "libs"
    listed = subprocess.run(
        [java(), "-cp", f"{libraries}/*", "kafka.server.KafkaConfig"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r'id="brokerconfigs_([^"]+)"', listed)) == DOCUMENTED
