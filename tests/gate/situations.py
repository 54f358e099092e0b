"""Situations that the gate must get right, from the honest to the malicious."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.history import NEMESIS, Event, EventType
from harness.sim.batch.chunks import SCHEMA, write_digests
from results.judge.pipeline import judge
from results.store.evidence_files import LOG_FILE
from results.store.files import StoreError
from results.store.journal import decode_event, encode_event
from results.store.run_store import RunStore
from tests.gate.bench import Arguments, Bench, Make, Rows, edit, forge, rejudge_digest, situations

Change = Callable[[RunStore], Any]


def a_run(kind: str, change: Change | None = None, *options: str) -> Make:
    """A run of a kind, to which something may be done."""

    def make(bench: Bench) -> Arguments:
        store = bench.copy(kind)
        if change is not None:
            change(store)
        return [store.folder, *options]

    return make


good, bad, simulated, mutant = (
    partial(a_run, kind) for kind in ("good", "bad", "simulated", "mutant")
)


def batch(change: Callable[[Path], Any], *options: str) -> Make:
    """A batch to which something is done, and whose digests are written anew."""

    def act(store: RunStore) -> None:
        change(store.folder)
        with suppress(StoreError):  # a pipe has none
            write_digests(store.folder)

    return a_run("batch", act, *options)


def results(change: Callable[[dict[str, Any]], Any], *, digest: bool = False) -> Change:
    """Edit results.json, and if asked for append its digest as a judgement would."""

    def act(store: RunStore) -> None:
        edit(store.results_path, change)
        if digest:
            rejudge_digest(store)

    return act


def plan(change: Callable[[dict[str, Any]], Any], then: str = "judge") -> Change:
    """Edit plan.json; then leave it, judge again, or forge the whole chain and judge again."""

    def act(store: RunStore) -> None:
        edit(store.plan_path, change)
        if then != "leave":
            forge(store, rejudge=True) if then == "forge" else judge(store)

    return act


# -- what is done to results ---------------------------------------------------------------------


def all_pass(document: dict[str, Any]) -> None:
    document["status"] = document["verdict"] = "PASS"
    for check in document["checks"]:
        check["status"] = "PASS"


def all_clean(document: dict[str, Any]) -> None:
    """As a careful forger leaves them."""
    all_pass(document)
    for check in document["checks"]:
        check["anomalies"] = []
        check["statistics"].pop("anomalies", None)
        if "by_status" in check["statistics"]:
            count = sum(check["statistics"].pop("by_status").values())
            check["statistics"]["by_status"] = {"PASS": count}


def only(name: str) -> Callable[[dict[str, Any]], None]:
    def act(document: dict[str, Any]) -> None:
        document["checks"] = [
            c for c in document["checks"] if name in (c.get("checker"), c.get("name"))
        ]

    return act


def check_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(c for c in document["checks"] if name in (c.get("checker"), c.get("name")))


def more_operations(document: dict[str, Any]) -> None:
    check_of(document, "exercised")["statistics"]["ok"] += 1_000_000


def more_counted(document: dict[str, Any]) -> None:
    document["statistics"]["operations"] += 1_000_000


def deep(store: RunStore) -> None:
    store.results_path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000)


def quite_deep(document: dict[str, Any]) -> None:
    """Deep enough that a reader in C may take it and a walk over it in Python may not."""
    nested: Any = 1
    for _ in range(400):
        nested = [nested]
    document["plan"]["versions"] = nested


def nan(store: RunStore) -> None:
    text = store.results_path.read_text()
    store.results_path.write_text(text.replace('"duration_s": ', '"duration_s": NaN, "x": ', 1))


def huge_number(store: RunStore) -> None:
    text = store.results_path.read_text()
    store.results_path.write_text(text.replace('"version": 2', '"version": ' + "2" * 10_000, 1))


def escapes(document: dict[str, Any]) -> None:
    document["run"] = "\x1b[2J\x1b[32mPASS\ngate open: 1 of 1 run passes"


# -- what is done to files -----------------------------------------------------------------------


def of_other(bench: Bench) -> Arguments:
    store, other = bench.copy("bad"), bench.copy("other")
    for name in ("results.json", "certificates.jsonl"):
        shutil.copy(other.folder / name, store.folder / name)
    return [store.folder]


def all_of_other(bench: Bench) -> Arguments:
    """A failed run that is given the chain, results and plan of one that passed."""
    store, other = bench.copy("bad"), bench.copy("other")
    for name in ("results.json", "certificates.jsonl", "digests.jsonl", "plan.json"):
        shutil.copy(other.folder / name, store.folder / name)
    return [store.folder]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path, count: int) -> None:
    """Cut bytes from the end of a file."""
    path.write_bytes(path.read_bytes()[:-count])


def to_link(path: Path) -> None:
    elsewhere = path.parent.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def drop_line(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for n, line in enumerate(lines) if n != number))


def cut_ended(store: RunStore) -> None:
    """Cut the chain before its end, as the kill of a harness does."""
    lines = store.digests_path.read_bytes().splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if b'"ended"' in line)
    store.digests_path.write_bytes(b"".join(lines[:end]))


def outside(store: RunStore) -> None:
    text = store.digests_path.read_text()
    store.digests_path.write_text(text.replace('"plan.json"', '"../../../etc/passwd"', 1))


def forged_history(store: RunStore) -> None:
    """Drop a fault's injections from the journal, forge the chain, keep the results."""
    lines = store.journal_path.read_bytes().splitlines(keepends=True)
    store.journal_path.write_bytes(b"".join(lines[: len(lines) // 2]))
    forge(store, rejudge=False)


def forged_clean(store: RunStore) -> None:
    """Let a read return what was never written, and everything that is stored deny it."""
    lines = store.journal_path.read_bytes().splitlines()
    events = [decode_event(line) for line in lines]
    last = max(n for n, e in enumerate(events) if (e.f, e.type) == ("read", EventType.OK) and e.key)
    events[last] = replace(events[last], value="never written")
    store.journal_path.write_bytes(b"".join(map(encode_event, events)))
    edit(store.results_path, all_clean)
    forge(store, rejudge=False)


def forged_evidence(store: RunStore) -> None:
    path = store.evidence_path("n1") / "log.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    forge(store, rejudge=True)


def forged_certificates(store: RunStore) -> None:
    """Let the proof of a key name the operations of another order."""
    lines = [json.loads(line) for line in store.certificates_path.read_text().splitlines()]
    next(line["certificate"]["linearization"] for line in lines if line["certificate"]).reverse()
    store.certificates_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    forge(store, rejudge=False)


def journal(change: Callable[[Event], Event | None], *, rejudge: bool) -> Change:
    """Change events of the journal or leave them out, and make all digests anew."""

    def act(store: RunStore) -> None:
        events = map(decode_event, store.journal_path.read_bytes().splitlines())
        kept = [new for event in events if (new := change(event)) is not None]
        rows = [replace(event, index=index) for index, event in enumerate(kept)]
        store.journal_path.write_bytes(b"".join(map(encode_event, rows)))
        forge(store, rejudge=rejudge)

    return act


def heal_that(
    ended: EventType, error: str | None = None, **measured: Any
) -> Callable[[Event], Event]:
    """Let the heal of the partition end so."""

    def act(event: Event) -> Event:
        if event.f != "partition" or event.type is EventType.INVOKE:
            return event
        if event.value["phase"] != "heal":
            return event
        return replace(event, type=ended, error=error, value={**event.value, **measured})

    return act


DEAF = heal_that(EventType.OK, verified=False, detail={"reason": "n2 hears none"})
RAISED = heal_that(EventType.INFO, "OSError: no such device", verified=None, detail=None)


def ended_by_itself(event: Event) -> Event:
    """Note the end of a node's process where the leader was seen last."""
    if event.f != "leader" or event.value["epoch"] != 4:
        return event
    value = {"node": "n2", "incarnation": 0, "exit_code": 1, "output_tail": []}
    return replace(event, f="crash", type=EventType.INFO, value=value)


def without_kill(event: Event) -> Event | None:
    return None if event.f == "kill" else event


def without_kill_and_plan(store: RunStore) -> None:
    """Take a kill out of journal and plan: its node began twice all the same."""

    def act(document: dict[str, Any]) -> None:
        document["faults"].remove("kill")
        document["schedule"] = [row for row in document["schedule"] if row["fault"] != "kill"]
        document["expectations"]["faults"].remove("kill")
        check_of(document, "exercised")["options"]["expectations"] = document["expectations"]

    edit(store.plan_path, act)
    journal(without_kill, rejudge=True)(store)


def not_served(store: RunStore) -> None:
    """Let every operation of the last phase fail."""
    began: list[int] = []

    def act(event: Event) -> Event:
        if event.f == "phase" and event.value["name"] == "heal":
            began.append(event.index)
        failed = began and event.type is EventType.OK and event.process != NEMESIS
        return replace(event, type=EventType.FAIL, error="NOT_CONTROLLER") if failed else event

    journal(act, rejudge=True)(store)


def nothing_read(event: Event) -> Event:
    """Let every read fail."""
    failed = event.f == "read" and event.type is EventType.OK
    return replace(event, type=EventType.FAIL, error="NOT_CONTROLLER") if failed else event


# -- what is done to batches ---------------------------------------------------------------------


def rows(folder: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    (path,) = (folder / "results").glob("*.parquet")
    table = pq.read_table(path).to_pylist()
    changed = change(table)
    pq.write_table(pa.Table.from_pylist(table if changed is None else changed, SCHEMA), path)


def failed_row(found: list[dict[str, Any]]) -> None:
    found[2] |= {"verdict": "FAIL", "property": "durable-vote", "explanation": "n1 voted twice"}


def whitened_row(found: list[dict[str, Any]]) -> None:
    found[2] |= {"property": "durable-vote", "explanation": "n1 voted twice"}


def richer_row(found: list[dict[str, Any]]) -> None:
    figures = json.loads(found[2]["statistics"])
    found[2]["statistics"] = json.dumps({**figures, "operations": 10**6})


def infinite_row(found: list[dict[str, Any]]) -> None:
    found[2]["statistics"] = '{"operations": 1e999, "faults": 1, "simulated_s": 1, "cpu_s": 1}'


def pause_instead(document: dict[str, Any]) -> None:
    document["schedule"][0]["steps"][0]["kind"] = "pause"


def quiet_row(found: list[dict[str, Any]]) -> None:
    exercise = json.loads(found[0]["exercise"])
    found[0]["exercise"] = json.dumps({**exercise, "ok": 0, "reads": 0, "writes": 0})


def less_needed(found: list[dict[str, Any]]) -> None:
    for row in found:
        exercise = json.loads(row["exercise"])
        exercise["needed"] = dict.fromkeys(exercise["needed"], -1)
        row["exercise"] = json.dumps(exercise)


def richer(folder: Path) -> None:
    rows(folder, richer_row)
    (folder / "summary.json").unlink()


def of_other_code(folder: Path) -> None:
    for name in ("batch.json", "summary.json"):
        edit(folder / name, lambda d: d.update(code="0" * 16))


def other_columns(folder: Path) -> None:
    (path,) = (folder / "results").glob("*.parquet")
    pq.write_table(pa.table({"seed": [0, 1, 2], "verdict": ["PASS"] * 3}), path)


def torn_parquet(folder: Path) -> None:
    (path,) = (folder / "results").glob("*.parquet")
    cut(path, 20)


# -- folders -------------------------------------------------------------------------------------


def campaign(bench: Bench) -> Arguments:
    folder = bench.folder()
    bench.copy("good", folder)
    bench.copy("other", folder)
    (folder / "notes").mkdir()
    return [folder]


def campaign_with_failure(bench: Bench) -> Arguments:
    folder = bench.folder()
    bench.copy("good", folder)
    bench.copy("bad", folder)
    return [folder.parent]


def campaign_with_remains(bench: Bench) -> Arguments:
    """A run that failed and of which all that says so was removed."""
    folder = bench.folder()
    bench.copy("good", folder)
    bad = bench.copy("bad", folder)
    for name in ("plan.json", "history.jsonl", "results.json", "digests.jsonl"):
        (bad.folder / name).unlink()
    return [folder]


def twice(bench: Bench) -> Arguments:
    store = bench.copy("good")
    return [store.folder, store.folder / "."]


def copied(bench: Bench) -> Arguments:
    return [bench.copy("good").folder, bench.copy("good").folder]


def copied_and_damaged(bench: Bench) -> Arguments:
    store = bench.copy("good")
    store.results_path.unlink()
    return [bench.copy("good").folder, store.folder]


def linked(bench: Bench) -> Arguments:
    store = bench.copy("good")
    link = bench.folder() / "latest"
    link.symlink_to(store.folder)
    return [link]


def mixed(bench: Bench) -> Arguments:
    return [bench.copy("batch").folder, bench.copy("good").folder, bench.copy("simulated").folder]


def batch_twice(bench: Bench) -> Arguments:
    return [bench.copy("batch").folder, bench.copy("batch").folder]


def renamed(bench: Bench) -> Arguments:
    store = bench.copy("good")
    return [store.folder.rename(store.folder.with_name("released"))]


def nested(*parts: str) -> Make:
    """A run that failed, below the folder of one that passes."""

    def make(bench: Bench) -> Arguments:
        store = bench.copy("good")
        place = store.folder.joinpath(*parts)
        place.mkdir(parents=True, exist_ok=True)
        bench.copy("bad", place)
        return [store.folder]

    return make


def deep_in_artifacts(bench: Bench) -> Arguments:
    folder = bench.folder()
    bench.copy("good", folder)
    bench.copy("bad", folder / "artifacts" / "job" / "arch" / "runs" / "quick" / "late")
    return [folder]


def behind_a_link(bench: Bench) -> Arguments:
    store = bench.copy("good")
    (store.folder.parent / "more").symlink_to(bench.copy("bad").folder.parent)
    return [store.folder.parent]


def in_an_archive(bench: Bench) -> Arguments:
    store, bad = bench.copy("good"), bench.copy("bad")
    shutil.make_archive(str(store.folder.parent / "runs"), "zip", bad.folder)
    return [store.folder.parent]


def linked_within(bench: Bench) -> Arguments:
    store = bench.copy("good")
    (store.folder.parent / "latest").symlink_to(store.folder)
    return [store.folder.parent]


def behind_a_dead_link(bench: Bench) -> Arguments:
    store = bench.copy("good")
    (store.folder.parent / "more").symlink_to("/nowhere")
    return [store.folder.parent]


def beside_a_pipe(bench: Bench) -> Arguments:
    store = bench.copy("good")
    os.mkfifo(store.folder.parent / "run")
    return [store.folder.parent]


def remains(*names: str) -> Make:
    """A good run, and of another what bears these names."""

    def make(bench: Bench) -> Arguments:
        folder = bench.folder()
        bench.copy("good", folder)
        other = bench.copy("simulated", folder)
        for path in other.folder.iterdir():
            if path.name not in names:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return [folder]

    return make


def run_as_batch(bench: Bench) -> Arguments:
    """A run that failed, behind the rows of a batch that passes."""
    bad, seeds = bench.copy("bad"), bench.copy("batch").folder
    shutil.copytree(seeds, bad.folder, dirs_exist_ok=True)
    return [bad.folder]


# -- a run under another name --------------------------------------------------------------------

NOW = "29991121T010203Z-seed7"


def renamed_copy(*, journal: bool, seed: int = 8, run: str = "other-name") -> Change:
    """The same journal under another name and seed, with the chain made anew behind it."""

    def act(store: RunStore) -> None:
        edit(store.plan_path, lambda plan: plan.update(run=run, seed=seed))
        if journal:
            first, rest = store.journal_path.read_bytes().split(b"\n", 1)
            event = decode_event(first)
            of = {"run": run, "seed": seed, "at": "2999-11-21T01:02:03+00:00"}
            event = replace(event, value={**event.value, **of})
            store.journal_path.write_bytes(encode_event(event) + rest)
        forge(store, rejudge=True)

    return act


def beside_the_first(change: Change) -> Make:
    def make(bench: Bench) -> Arguments:
        return [bench.copy("good").folder, *moved(change)(bench)]

    return make


def moved(change: Change) -> Make:
    """A run to which something was done, in the folder that its plan names."""

    def make(bench: Bench) -> Arguments:
        store = bench.copy("good")
        change(store)
        return [store.folder.rename(store.folder.with_name(store.plan()["run"]))]

    return make


def with_a_log(store: RunStore) -> None:
    """Give a node a log that was begun when the run began."""
    log = store.node_path("n1") / "metadata" / "__cluster_metadata-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(27) + (1_795_222_924_000).to_bytes(8, "big") + bytes(26))


def in_the_folder_of_another(bench: Bench) -> Arguments:
    store = bench.copy("good")
    return [store.folder.rename(store.folder.with_name("20261121T020304Z-seed9"))]


# -- what must not be waited for -----------------------------------------------------------------


def twice_said(path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace('"status":', '"status": "PASS", "status":', 1))


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def holes(path: Path) -> None:
    os.truncate(path, 20 << 30)


def one_line(path: Path) -> None:
    path.write_bytes(b'{"index":0,"value":"' + b"x" * (20 << 20) + b'"}\n')


_ROWS: Rows = {
    # What opens it.
    "an intact run": (good(), 0),
    "an intact simulated run": (simulated(), 0),
    "an intact batch of seeds": (a_run("batch"), 0),
    "a campaign's folder": (campaign, 0, "gate open: 2 of 2 runs pass"),
    "run, simulated run and batch together": (mixed, 0, "gate open: 3 of 3 runs pass"),
    "the same run twice": (twice, 0, "counted once)"),
    "a run and its copy": (copied, 0, "gate open: 1 of 1 run passes"),
    "a link to a run": (linked, 0, "gate open: 1 of 1 run passes"),
    "a run in a renamed folder": (renamed, 0),
    "a run judged three times": (good(lambda s: [judge(s), judge(s)]), 0),
    "judged again": (simulated(None, "--judge-again"), 0),
    "seeds run again": (a_run("batch", None, "--judge-again"), 0),
    "skipped, allowed": (a_run("skipped", None, "--allow-skipped"), 0),
    "no faults, allowed": (a_run("quiet", None, "--allow-no-faults"), 0),
    # Honest, and not good enough.
    "FAIL": (bad(), 1),
    "FAIL among others": (campaign_with_failure, 1, "gate closed: 1 of 2 runs pass"),
    "a lost write": (a_run("lossy"), 1),
    "skipped faults": (a_run("skipped"), 4),
    "no faults": (a_run("quiet"), 4),
    "a mutant that passed": mutant(),
    "a mutant's batch": a_run("mutant-batch"),
    "no evidence: UNKNOWN": a_run("blind"),
    "a killed harness": a_run("killed"),
    # What a PASS needs, taken away.
    "a node that ended by itself": (good(journal(ended_by_itself, rejudge=True)), 1),
    "a kill that neither journal nor plan has": good(without_kill_and_plan),
    "no operation ok in the last phase": good(not_served),
    "no read ok": good(journal(nothing_read, rejudge=True)),
    "a heal that measured no effect": good(journal(DEAF, rejudge=True)),
    "a heal that raised": good(journal(RAISED, rejudge=True)),
    "a heal that failed, all forged to PASS": good(journal(DEAF, rejudge=False)),
    "an empty folder": (lambda bench: [bench.folder()], 2),
    "no such folder": (lambda bench: [bench.folder() / "x"], 2),
    "a file": (lambda bench: [bench.copy("good").plan_path], 2),
    "remains of a run": campaign_with_remains,
    "report and JUnit of a run": remains("report.html", "junit.xml"),
    "the report of a run": (remains("report.html"), 3, "gate closed: 1 of 2 runs pass"),
    "the JUnit file of a run": (remains("junit.xml"), 3, "gate closed: 1 of 2 runs pass"),
    "the tables of a run": (remains("history.parquet"), 3, "gate closed: 1 of 2"),
    "a FAIL within a run": (nested("more"), 1),
    "a FAIL among a run's tables": (nested("history.parquet"), 1),
    "a FAIL among a run's nodes": (nested("nodes", "n4"), 1, "FAIL: linearizable: "),
    "a FAIL six folders deep": (deep_in_artifacts, 1),
    "a FAIL behind a link": behind_a_link,
    "a FAIL in an archive": in_an_archive,
    "a link to nothing": behind_a_dead_link,
    "a link to a run beside it": (linked_within, 0, "gate open: 1 of 1 run passes"),
    "a pipe among the runs": beside_a_pipe,
    "a run behind a batch of seeds": run_as_batch,
    # The name of another run.
    "a journal under another seed": beside_the_first(renamed_copy(journal=False)),
    "a journal under another name": beside_the_first(renamed_copy(journal=False, seed=7)),
    "a journal under another name and seed, which it says itself": beside_the_first(
        renamed_copy(journal=True)
    ),
    "a journal under another name, which it says itself": (
        beside_the_first(renamed_copy(journal=True, seed=7)),
        0,
        "counted once)",
    ),
    "an old run renamed to now, with logs of its nodes": moved(
        lambda s: [with_a_log(s), renamed_copy(journal=True, seed=7, run=NOW)(s)]
    ),
    "a PASS in the folder of another run": in_the_folder_of_another,
    # What must not be waited for, or read to its end.
    **{
        f"{name} that is a pipe": simulated(lambda s, name=name: to_pipe(s.folder / name))
        for name in (
            "plan.json",
            "results.json",
            "history.jsonl",
            "digests.jsonl",
            "certificates.jsonl",
            "report.html",
            "nodes/n1/trace.jsonl",
        )
    },
    "a journal without an end": good(lambda s: endless(s.journal_path)),
    "results without an end": good(lambda s: endless(s.results_path)),
    "a journal of holes": good(lambda s: holes(s.journal_path)),
    "a journal of holes that was recorded so": good(
        lambda s: [holes(s.journal_path), forge(s, rejudge=False)]
    ),
    "a journal of one line": good(lambda s: [one_line(s.journal_path), forge(s, rejudge=False)]),
    "a key twice in the results": good(lambda s: twice_said(s.results_path)),
    # Pages that say otherwise.
    "a report that says otherwise": simulated(lambda s: s.report_path.write_text("<h1>PASS</h1>")),
    "a JUnit file that says otherwise": simulated(
        lambda s: s.junit_path.write_text("<testsuites/>")
    ),
    "a report of an earlier judgement": simulated(judge),
    "a run without its report": (simulated(lambda s: s.report_path.unlink()), 0),
    "a copy without results": (copied_and_damaged, 3, "gate closed: 1 of 2 runs pass"),
    # Files missing, torn, changed.
    "no results": good(lambda s: s.results_path.unlink()),
    "no plan": good(lambda s: s.plan_path.unlink()),
    "no journal": good(lambda s: s.journal_path.unlink()),
    "no digests": good(lambda s: s.digests_path.unlink()),
    "no certificates": good(lambda s: s.certificates_path.unlink()),
    "no evidence of a node": good(lambda s: shutil.rmtree(s.evidence_path("n1"))),
    "a node that was not recorded": good(lambda s: s.write_evidence("n4", LOG_FILE, [])),
    "torn results": good(lambda s: cut(s.results_path, 50)),
    "a torn journal": good(lambda s: cut(s.journal_path, 9)),
    "a torn journal, judged again": good(lambda s: [cut(s.journal_path, 9), judge(s)]),
    "a torn trace": good(lambda s: cut(s.node_path("n1") / "trace.jsonl", 9)),
    "a flipped bit in a log": simulated(
        lambda s: flip(next(s.nodes_path.glob("n1/metadata/*/*.log")))
    ),
    "a log that is a link": good(lambda s: to_link(s.evidence_path("n1") / "log.jsonl")),
    "a trace that is a pipe": good(lambda s: to_pipe(s.evidence_path("n1") / "state.jsonl")),
    "results that are a folder": good(lambda s: [s.results_path.unlink(), s.results_path.mkdir()]),
    "results of the future": good(results(lambda d: d.update(version=99))),
    "deep JSON": good(deep),
    "rather deep JSON": good(results(quite_deep, digest=True)),
    "NaN in the results": good(nan),
    "a huge number": good(huge_number),
    "terminal escapes": good(results(escapes, digest=True)),
    "a list for results": good(lambda s: s.results_path.write_text("[]")),
    "anomalies that are text": good(results(lambda d: d["checks"][0].update(anomalies="none"))),
    # Edited results.
    "status turned to PASS": bad(results(lambda d: d.update(status="PASS"))),
    "all statuses turned, digest redone": bad(results(all_pass, digest=True)),
    "all cleaned, no digest": bad(results(all_clean)),
    "checks deleted, digest redone": bad(
        results(lambda d: [all_pass(d), only("statistics")(d)], digest=True)
    ),
    "one check deleted of a PASS": good(results(lambda d: d["checks"].pop(2), digest=True)),
    "a check twice": good(results(lambda d: d["checks"].append(d["checks"][0]), digest=True)),
    "more operations claimed": good(results(more_operations, digest=True)),
    "more operations counted": good(results(more_counted, digest=True)),
    "mutant removed from results": mutant(
        results(lambda d: d["plan"].update(mutant=None), digest=True)
    ),
    "results of another run": of_other,
    "plan, chain and results of another run": all_of_other,
    # Edited plans.
    "plan cut to statistics, judged again": bad(plan(only("statistics"))),
    "plan cut, everything forged": bad(plan(only("statistics"), "forge")),
    "a weaker check, everything forged": (
        bad(
            plan(
                lambda d: check_of(d, "linearizable")["options"].update(functions=["write"]),
                "forge",
            )
        ),
        1,
    ),
    "a shorter time limit, everything forged": good(
        plan(lambda d: check_of(d, "linearizable")["options"].update(time_limit_s=60), "forge")
    ),
    "mutant removed from the plan": mutant(plan(lambda d: d.update(mutant=None))),
    "mutant removed, everything forged": mutant(plan(lambda d: d.update(mutant=None), "forge")),
    "faults removed from the plan": good(plan(lambda d: d.update(faults=[], schedule=[]))),
    "expectations lowered in the check": good(
        plan(lambda d: check_of(d, "exercised").update(options={"expectations": {}}), "forge")
    ),
    "expectations lowered": good(plan(lambda d: d["expectations"].update(min_operations=1))),
    "another backend": good(plan(lambda d: d.update(backend="docker"))),
    "another backend, not judged again": good(plan(lambda d: d.update(backend="docker"), "leave")),
    "an unknown workload, everything forged": good(
        plan(lambda d: d.update(workload="registers"), "forge")
    ),
    "a system in which none leads, everything forged": good(
        plan(lambda d: d.update(leaderless=True), "forge")
    ),
    "a strand's fault replaced, forged": simulated(plan(pause_instead, "forge")),
    "a plan of the future": good(plan(lambda d: d.update(version=7), "leave")),
    # The chain.
    "a chain without its end": good(cut_ended),
    "a line missing in the chain": good(lambda s: drop_line(s.digests_path, 3)),
    "a chain that points outside": good(outside),
    "an empty chain": good(lambda s: s.digests_path.write_text("")),
    "half the journal, chain forged, results kept": good(forged_history),
    "a limit: a wrong journal, all forged to PASS": (simulated(forged_clean), 0),
    "the same, judged again": (simulated(forged_clean, "--judge-again"), 1),
    "evidence forged, judged again": simulated(forged_evidence, "--judge-again"),
    "certificates forged, judged again": (
        simulated(forged_certificates, "--judge-again"),
        3,
        "certificates.jsonl: line 1",
    ),
    # Batches.
    "rows changed, digests not": a_run("batch", lambda s: rows(s.folder, quiet_row)),
    "a seed missing": batch(lambda f: rows(f, lambda t: t[:2])),
    "a seed twice": batch(lambda f: rows(f, lambda t: [t[0], t[1], t[1]])),
    "a seed of another range": batch(lambda f: rows(f, lambda t: t[2].update(seed=27))),
    "no rows": batch(lambda f: shutil.rmtree(f / "results")),
    "a failed row, summary PASS": (batch(lambda f: rows(f, failed_row)), 1),
    "a failed row that tried a list": (
        batch(lambda f: rows(f, lambda t: (failed_row(t), t[2].update(exercise="[]"), t)[-1])),
        1,
    ),
    "a PASS that holds a finding": batch(lambda f: rows(f, whitened_row)),
    "a PASS of a seed that was quiet": batch(lambda f: rows(f, quiet_row)),
    "seeds that needed less than nothing": batch(lambda f: rows(f, less_needed)),
    "a figure that is no number": batch(lambda f: rows(f, infinite_row)),
    "summary FAIL, rows PASS": batch(
        lambda f: edit(f / "summary.json", lambda d: d.update(verdict="FAIL"))
    ),
    "a failure kept, rows PASS": batch(lambda f: (f / "failures" / "x-1.json").write_text("{}")),
    "other columns": batch(other_columns),
    "a batch.json that is a pipe": batch(lambda f: to_pipe(f / "batch.json")),
    "rows that are a pipe": batch(lambda f: to_pipe(next((f / "results").glob("*.parquet")))),
    "a batch and its copy": (batch_twice, 0, "gate open: 1 of 1 run passes"),
    "a torn Parquet file": batch(torn_parquet),
    "an edited batch.json": batch(lambda f: edit(f / "batch.json", lambda d: d.update(last=16))),
    "a batch of the future": batch(
        lambda f: edit(f / "batch.json", lambda d: d.update(version=99))
    ),
    "richer rows, run again": batch(richer, "--judge-again"),
    "other code, run again": batch(of_other_code, "--judge-again"),
}
SITUATIONS = situations(_ROWS)
