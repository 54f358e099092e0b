"""The page of many runs."""

import datetime as dt
import html
import json
import os
import re
import socket

import pytest

from results.catalogue.index import FILE, faults_of, render_index, write_index
from results.catalogue.rows import Entry, Row, catalogue
from results.store.files import StoreError
from results.store.folders import walk
from results.store.run_store import RunStore
from tests.command_line import kraftprobe
from tests.gate.bench import Bench


def entry(folder, name="r1", **fields):
    row = {
        "run": name,
        "verdict": "PASS",
        "campaign": "quick",
        "workload": "register",
        "system": "kraft",
        "build": "0.1.0",
        "backend": "local",
        "nodes": 3,
        "asked": "a0b1",
        "seed": 1,
        "mutant": None,
        "started": None,
        "duration_s": 10.0,
        "operations": 100,
        "ok": 90,
        "leader_changes": 1,
        "faults": "kill 1",
        "write_p99_ms": None,
        "read_p99_ms": None,
        "unavailability_s": None,
        "recovery_s": None,
        "signed": False,
    }
    store = RunStore(folder / "quick" / name)
    return Entry(store, Row(**{**row, "folder": str(store.folder), **fields}), (), None)


def text_of(page):
    body = re.sub(r"<(style|script)>.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def section(page, name):
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.DOTALL)
    return None if found is None else text_of(found[0])


def test_a_cell_has_the_worst_verdict_and_counts_each(tmp_path):
    page = render_index(
        tmp_path,
        [
            entry(tmp_path, "a"),
            entry(tmp_path, "b", verdict="FAIL", faults="kill 2, pause 1"),
            entry(tmp_path, "c", verdict="PASS WITHOUT delay", faults=""),
        ],
    )
    shown = section(page, "matrix")
    assert "pause no fault" in shown
    assert "register FAIL 1 FAIL, 1 PASS; 20 s FAIL 1 FAIL; 10 s PASS 1 PASS; 10 s" in shown


def test_mutants_are_counted_apart_and_colour_nothing_red(tmp_path):
    page = render_index(
        tmp_path,
        [
            entry(tmp_path, "a", verdict="PASS", faults="kill 1"),
            entry(tmp_path, "b", verdict="FAIL", faults="kill 2, pause 1", mutant="M15"),
            entry(tmp_path, "c", verdict="PASS", faults="kill 1", mutant="M13"),
        ],
    )
    shown = text_of(page)
    assert "PASS 1 mutants found: 1 of 2" in shown
    assert "register PASS 1 PASS, mutants found: 1 of 2; 30 s mutants found: 1 of 1; 10 s" in shown
    assert 'class="chip fail"' not in page


def test_what_was_not_judged_is_listed_and_counts_for_nothing(tmp_path):
    page = render_index(tmp_path, [entry(tmp_path, "a", verdict="not judged", faults="")])
    assert section(page, "matrix") is None
    assert "a quick register" in section(page, "all")


def test_what_passed_and_did_not_on_one_build_is_named(tmp_path):
    same = [entry(tmp_path, "a"), entry(tmp_path, "b", verdict="UNKNOWN")]
    shown = section(render_index(tmp_path, same), "flaky")
    assert "local, plan a0b1 0.1.0 1 1" in shown
    for changed in ({"build": "0.2.0"}, {"asked": "c2d3"}, {"nodes": 5}):
        other = [entry(tmp_path, "a"), entry(tmp_path, "b", verdict="UNKNOWN", **changed)]
        assert section(render_index(tmp_path, other), "flaky") is None


def test_a_trend_goes_from_the_oldest_run_to_the_newest(tmp_path):
    day = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    runs = [
        entry(tmp_path, f"r{at}", started=day + dt.timedelta(days=at), write_p99_ms=value)
        for at, value in ((2, 40.0), (0, 10.0), (1, 20.0))
    ]
    page = render_index(tmp_path, runs)
    (label,) = re.findall(r'aria-label="(p99.*?)"', page)
    assert label == (
        "p99 of writes, ms, of 3 runs, 2026-11-01 to 2026-11-03: first 10.00, last 40.00, median "
        "20.00, highest 40.00; of one build, so there is no change to look for"
    )
    titles = re.findall(r"<circle.*?<title>(.*?)</title>", page)
    assert titles == [f"r{at}, build 0.1.0: {ms}.00" for at, ms in ((0, 10), (1, 20), (2, 40))]
    assert section(render_index(tmp_path, runs[:2]), "trends") is None


def daily(folder, builds, column="write_p99_ms", **fields):
    """Runs a day apart: build -> the figure of each of its runs."""
    values = [(build, value) for build, of in builds.items() for value in of]
    day = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    return [
        entry(
            folder,
            f"r{at}",
            build=build,
            started=day + dt.timedelta(days=at),
            **{column: value, **fields},
        )
        for at, (build, value) in enumerate(values)
    ]


SLOWER = {"1": [10.0, 11.0, 12.0], "2": [10.5, 11.5, 12.5], "3": [20.0, 21.0, 22.0, 23.0, 24.0]}
FASTER = dict(zip("123", reversed(SLOWER.values()), strict=True))


@pytest.mark.parametrize(
    ("builds", "said"),
    [
        (SLOWER, ("worse p99 of writes, ms, campaign quick, register on 3 nodes of kraft, backend "
                 "local, plan a0b1: 1.96 times as high since build 3: median 22 of 5 runs, 11.25 of 6 before, "
                 "p 0.0022")),
        (FASTER, ("better p99 of writes, ms, campaign quick, register on 3 nodes of kraft, backend "
                 "local, plan a0b1: 0.51 times as high since build 2: median 11.25 of 6 runs, 22 of 5 before, "
                 "p 0.0022")),
    ],
    ids=["slower", "faster"],
)  # fmt: skip
def test_a_change_beyond_noise_is_named_with_the_build_that_brought_it(tmp_path, builds, said):
    assert said in section(render_index(tmp_path, daily(tmp_path, builds)), "trends")


@pytest.mark.parametrize(
    ("builds", "said"),
    [
        ({"1": [10.0, 12.0, 14.0, 11.0], "2": [13.0, 10.5, 12.5, 11.5]}, "no change beyond noise"),
        ({"1": [10.0] * 8, "2": [10.5] * 8}, "no change beyond noise over 2 builds"),
        ({"1": [10.0], "2": [20.0, 21.0]}, "3 runs are too few to show a change"),
        ({"1": [10.0, 20.0, 30.0]}, "of one build"),
    ],
    ids=["noise", "within the tolerance", "too few", "one build"],
)
def test_where_no_change_can_be_shown_the_page_says_why(tmp_path, builds, said):
    shown = section(render_index(tmp_path, daily(tmp_path, builds)), "trends")
    assert "more than noise" in shown
    assert said in shown


def test_runs_of_other_kinds_have_charts_of_their_own_and_failed_ones_are_not_compared(tmp_path):
    slower = daily(tmp_path, SLOWER)
    others = daily(tmp_path, SLOWER, backend="docker", verdict="FAIL")
    mutants = daily(tmp_path, SLOWER, mutant="M15")
    page = render_index(tmp_path, [*slower, *others, *mutants])
    assert re.findall(r"<h3>(.*?)</h3>", page) == [
        "campaign quick, register on 3 nodes of kraft, backend docker, plan a0b1",
        "campaign quick, register on 3 nodes of kraft, backend local, plan a0b1",
        "campaign quick, register on 3 nodes of kraft, backend local, plan a0b1, mutant M15",
    ]
    assert page.count("<strong>worse</strong>") == 1
    assert page.count("<circle") == 3 * 11
    assert text_of(page).count("are not compared") == 2


def test_kinds_of_faults_are_read_off_a_row(tmp_path):
    assert faults_of(entry(tmp_path, faults="disk-stall 12, kill 1").row) == ["disk-stall", "kill"]
    assert faults_of(entry(tmp_path, faults="").row) == ["no fault"]


def test_hostile_names_stay_text(tmp_path):
    nasty = '"><script>alert(1)</script>'
    page = render_index(
        tmp_path,
        [entry(tmp_path, "a", **dict.fromkeys(("run", "campaign", "workload", "build"), nasty))],
    )
    assert "<script>alert" not in page
    assert nasty in text_of(page)


def test_a_folder_without_runs_says_so(tmp_path):
    assert "no run in this" in text_of(render_index(tmp_path, []))


def test_a_page_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / FILE).write_text("<h1>mine</h1>")
    with pytest.raises(StoreError, match="index of ours"):
        write_index(tmp_path, [])
    assert (tmp_path / FILE).read_text() == "<h1>mine</h1>"
    (tmp_path / FILE).unlink()
    write_index(tmp_path, [])
    write_index(tmp_path, [])


def index(*arguments):
    return kraftprobe("index", *arguments)


@pytest.mark.slow
def test_the_command_links_the_reports_that_are_there(tmp_path):
    root = Bench(tmp_path).folder().parent
    Bench(tmp_path / "other").copy("good", root / "a #1")
    (store,) = [found.store for found in catalogue(root)]
    assert index(root).output == f"{root / FILE}\n"
    assert "href=" not in (root / FILE).read_text().partition("<tbody>")[2]
    store.report_path.write_text("a report")
    index(root)
    link = f'<a href="a%20%231/{store.folder.name}/report.html">'
    assert link in (root / FILE).read_text()


def test_archives_are_named_but_for_those_among_the_files_of_nodes(tmp_path):
    (tmp_path / "run/nodes/n1/inner").mkdir(parents=True)
    (tmp_path / "run/nodes/n2").mkdir()
    of_nodes = ("run/nodes/n1/backup.tar.gz", "run/nodes/n2/a.zip")
    named = {"old.TGZ", "runs.zip", "a.txz", "b.tar.lz4", "c.rar", "d.7z", "e.tbz2", "f.cpio"}
    archives = (*of_nodes, *(f"run/{name}" for name in named))
    for name in ("run/plan.json", "run/nodes/n1/inner/plan.json", "run/trace.jsonl.gz", *archives):
        (tmp_path / name).touch()
    unread = {path.name for path, _ in walk([tmp_path]).unread}
    assert unread == named


def test_a_link_that_leads_nowhere_is_named(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "long").symlink_to("x" * 1000)
    assert sorted(walk([tmp_path]).unread) == [
        (tmp_path / "circle", "is a dead link"),
        (tmp_path / "long", "is a dead link"),
    ]


def test_a_socket_that_goes_while_its_folder_is_looked_into_is_left_out(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control"))

    def list_and_remove(folder):
        entries = list(scandir(folder))
        (tmp_path / "control").unlink()
        return entries

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", list_and_remove)
    assert walk([tmp_path]).unread == []


def test_what_was_not_looked_into_is_printed_and_is_on_the_page(tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(root / "<b>")
    result = index(root)
    assert result.stdout == f"{root / FILE}\n"
    assert result.stderr.splitlines() == [
        f"kraftprobe: {root / '<b>'}: is a pipe: not looked into",
        f"kraftprobe: {root / 'linked'}: is a link to a folder: not looked into",
    ]
    document = json.loads(index(root, "--json").stdout)
    assert document["unread"] == [
        {"path": str(root / "<b>"), "what": "is a pipe"},
        {"path": str(root / "linked"), "what": "is a link to a folder"},
    ]
    listed = kraftprobe("runs", "list", "--runs", root)
    assert listed.stderr == result.stderr
    page = (root / FILE).read_text()
    assert "<b> is a pipe linked" in section(page, "unread")
    assert "&lt;b&gt;" in page
    (root / "<b>").unlink()
    (root / "linked").unlink()
    assert index(root).stderr == ""
    assert section((root / FILE).read_text(), "unread") is None


def test_a_page_that_cannot_be_written_is_no_judgement(tmp_path):
    (tmp_path / FILE).symlink_to("/etc/hostname")
    refused = kraftprobe("index", tmp_path)
    assert refused.stderr == f"kraftprobe: {tmp_path / FILE}: a symbolic link, not a plain file\n"


def test_a_batch_of_seeds_is_named(tmp_path):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "batch.json").write_text("{}")
    index(tmp_path)
    assert "seeds is a batch of seeds" in section((tmp_path / FILE).read_text(), "unread")


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    result = index(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "no such folder" in result.stderr
