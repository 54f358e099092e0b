"""Cases in Clojure unit tests are found, and compared with what they expect."""

from tests.foreign.__main__ import main
from tests.foreign.clojure import cases

LISTS = """
(deftest skew-test
  ; anti-dependencies ("both" ways)
  (let [[t1 t1'] (pair (op "ax1ry"))
        [t2 t2' :as both] (pair (op 1 :ok "ay1rx"))
        h (h/history [t1 t2 t1' t2'])
        err {:valid? false, :not #{:repeatable-read}, :anomalies {:G2-item [unknown]}}]
    (testing "levels"
      (is (= {:valid? true} (c {:consistency-models [:read-committed]} h)))
      (is (= err (-> (c {:consistency-models [:serializable]} h) (dissoc :also-not)))))
    (is (= {:valid? true} (c {} (compute h))))))
"""
COUNTER = """
(deftest counter-test
  (is (= (check (counter) nil (history [(invoke-op 0 :read nil) (ok-op 0 :read 1)]) {})
         {:valid? false :errors [[0 1 0]]}))
  (is (not (:valid? (check (queue (model/unordered-queue)) nil
                           (h/history [(ok-op 1 :dequeue 1)]) {})))))
"""


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_cases_of_a_test_are_its_judgements_and_what_they_expect(tmp_path):
    found, unknown = cases(write(tmp_path, "list_append_test.clj", LISTS))
    assert [(case.place, case.valid) for case in found] == [
        ("skew-test 1", True),
        ("skew-test 2", False),
    ]
    assert unknown == 1
    first = found[0].judgement
    assert [op["type"] for op in first.history] == ["invoke", "invoke", "ok", "ok"]
    assert first.history[2]["value"] == [["append", "x", 1], ["r", "y", None]]


def test_the_table_says_how_many_agree(tmp_path, capsys):
    write(tmp_path, "elle/test/elle/list_append_test.clj", LISTS)
    write(tmp_path, "elle/test/elle/rw_register_test.clj", "")
    write(tmp_path, "jepsen/jepsen/test/jepsen/checker_test.clj", COUNTER)
    edn = (
        "[{:process 0 :type :invoke :f :read :value nil} {:process 0 :type :ok :f :read :value 1}]"
    )
    write(tmp_path, "knossos/data/cas-register/good/wrong.edn", edn)
    assert main(tmp_path) == 0
    shown = capsys.readouterr().out
    assert "| Knossos' data | 1 | 1 | 0 | 1 | 0 | 0 |" in shown
    assert "| Elle's unit tests, lists | 2 | 2 | 2 | 0 | 0 | 1 |" in shown
    assert "of checkers | 2 | 2 | 2 | 0 | 0 | 0 |" in shown
    assert "cas-register/wrong.edn: valid there, FAIL" in shown


def test_a_clone_that_is_missing_is_named(tmp_path, capsys):
    assert main(tmp_path) == 1
    assert "no clone of it" in capsys.readouterr().out
