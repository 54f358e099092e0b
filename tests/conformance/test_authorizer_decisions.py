"""Our StandardAuthorizer decides as Kafka's does, about random entries."""

from __future__ import annotations

import gzip
import shutil

import pytest

from cluster.node.controller.access.codes import PatternType
from tests.conformance.authorizer_decisions import (
    QUESTIONS,
    SUPER_USERS,
    WORLDS,
    generate,
    load,
    table_file,
)
from tests.controller.entries import authorizer_of
from tests.kafka_release import VERSION, release


def decided():
    """Each question with its world, and our answer."""
    for world in load(VERSION):
        authorizer = authorizer_of(world.entries, SUPER_USERS, everyone=world.allow_everyone)
        for question in world.questions:
            allowed = authorizer.authorize(
                question.origin, question.operation, question.resource_type, question.name
            )
            yield world, question, allowed


def has_overlooked(world, question):
    """Whether Kafka passes by the entries for every name: it takes "*" for the prefix of "*a"."""
    return question.name.startswith("*") and any(
        (entry.resource_type, entry.resource_name, entry.pattern_type)
        == (question.resource_type, "*", PatternType.LITERAL)
        for entry in world.entries
    )


def test_every_question_is_decided_as_by_kafka():
    answers = list(decided())
    wrong = [
        (world.entries, question)
        for world, question, allowed in answers
        if allowed is not question.allowed and not has_overlooked(world, question)
    ]
    assert (wrong[:3], len(wrong), len(answers)) == ([], 0, WORLDS * QUESTIONS)


def test_where_ours_differs_kafka_overlooks_the_entries_for_every_name():
    different = [question for _, question, allowed in decided() if allowed is not question.allowed]
    assert {question.name for question in different} == {"*a"}


def test_the_table_has_enough_of_either_answer():
    answers = [question.allowed for world in load(VERSION) for question in world.questions]
    assert 0.1 < sum(answers) / len(answers) < 0.9


@pytest.mark.slow
def test_the_table_is_what_the_release_answers():
    version = release()
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK (Debian: apt install default-jdk-headless)")
    assert generate(version) == gzip.decompress(table_file(version).read_bytes()).decode()
