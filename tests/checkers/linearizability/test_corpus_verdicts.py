"""Every judged history of the public corpus gets its known verdict, with an accepted certificate."""

import pytest

from checkers import HistoryError, load_history, pair
from checkers.linearizability.linearizable import judge
from checkers.verdict import Status
from porcupine_py.models import model_named
from tests.checkers.histories import verify
from tests.porcupine_py.corpus import JUDGED, expected, members

MODELS = {"cas-register": "cas-register", "kv-append": "kv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for name, content in members().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder


def test_the_corpus_is_whole():
    assert len(JUDGED) == 106
    assert {True, False} == {expected()[name]["valid"] for name in JUDGED}


@pytest.mark.parametrize("name", JUDGED)
def test_the_verdict_is_the_known_one(name, folder):
    known = expected()[name]
    operations = pair(load_history(folder / known["file"]))
    assert len(operations) == known["ops"]
    model = model_named(MODELS[known["model"]])
    results = [(part, judge(part, model)) for part in model.partition(operations)]
    statuses = {result.status for _, result in results}
    assert statuses <= {Status.PASS, Status.FAIL}
    assert (statuses == {Status.PASS}) == known["valid"]
    for part, result in results:
        assert verify(part, model, result) is None
        if result.status is Status.FAIL:
            assert len(result.certificate["window"]) <= 40


def test_an_empty_history_is_refused(folder):
    with pytest.raises(HistoryError, match=r"etcd_095\.jsonl: empty"):
        load_history(folder / expected()["etcd_095"]["file"])
