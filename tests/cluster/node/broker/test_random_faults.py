"""Random stories of three brokers, from seeds; see `tests.cluster.node.broker.story_of_records`."""

import pytest

from tests.cluster.node.broker.story_of_records import Story
from tests.night import SEED


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [2, 8, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (10, 14, SEED))]
)
def test_records_keep_their_promises_whatever_fails(seed):
    Story(seed).tell()


@pytest.mark.slow
def test_stories_of_one_seed_are_the_same():
    def lines():
        story = Story(12, steps=6)
        story.tell()
        return story.lines, story.scheduler.events

    assert lines() == lines()
