"""Runs are exported to a folder or an S3 store, read there again, and count only as a whole."""

import json
import urllib.request

import boto3
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

from harness.cli import main
from results.catalogue import places
from tests.gate.bench import Bench

GOOD = "20261121T010203Z-seed7"
TABLES = {"runs", "checks", "operations", "events", "records", "latencies", "windows", "recoveries"}
SECRET = "not-to-be-seen"


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("it's"))
    folder = bench.folder()
    for kind in ("good", "bad", "other"):
        bench.copy(kind, folder)
    return folder.parent


@pytest.fixture
def s3(server, monkeypatch):
    """Return the URI of an empty bucket, which the environment says how to reach."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield "s3://bucket/some/runs"
    for found in client.list_objects_v2(Bucket="bucket").get("Contents", ()):
        client.delete_object(Bucket="bucket", Key=found["Key"])
    client.delete_bucket(Bucket="bucket")


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.slow)])
def uri(request, tmp_path):
    return f"file://{tmp_path}/a%20b" if request.param == "file" else request.getfixturevalue("s3")


def runs(*arguments, code=0):
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        main, ["runs", *map(str, arguments)], prog_name="kraftprobe"
    )
    assert result.exit_code == code, result.output
    assert SECRET not in result.output
    return result


def files(uri):
    """Return the files of a place by path below it, and what deletes or opens them."""
    filesystem, folder = pafs.FileSystem.from_uri(uri)
    infos = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
    there = [info.path for info in infos if info.type is pafs.FileType.File]
    return {path.removeprefix(f"{folder}/"): path for path in there}, filesystem


def listed(uri, *more):
    found = runs("list", "--from", uri, "--json", *more)
    return sorted(row["run"] for row in json.loads(found.stdout)), found.stderr


@pytest.mark.slow
def test_what_was_exported_is_listed_and_filtered_as_where_it_came_from(root, uri):
    said = runs("export", "--to", uri, "--runs", root).stdout
    assert said.startswith(f"{uri}: 3 runs, ")
    there, _ = files(uri)
    assert {path.rpartition("/")[2].removesuffix(".parquet") for path in there} == TABLES
    assert {path.rpartition("/")[0] for path in there} == {
        "synthetic/bad",
        f"synthetic/{GOOD}",
        "synthetic/other",
    }
    local = json.loads(runs("list", "--runs", root, "--json").stdout)
    found = json.loads(runs("list", "--from", uri, "--json").stdout)
    assert [{**row, "folder": ""} for row in found] == [{**row, "folder": ""} for row in local]
    assert listed(uri, "--verdict", "FAIL", "--build", "0.1.*") == (["bad"], "")
    assert runs("list", "--from", uri, "--quiet").stdout.split() == [
        f"{uri}/synthetic/{name}" for name in (GOOD, "bad", "other")
    ]


QUERIES = """
SELECT run, type, count(*) AS n FROM operations WHERE f = 'read' AND type = 'ok' GROUP BY ALL
SELECT run, verdict, seed, started FROM runs
SELECT run, checker, status FROM checks JOIN runs USING (run) WHERE verdict = 'FAIL'
SELECT node, kind, count(*) AS n, max(epoch) AS e FROM records GROUP BY ALL
SELECT * FROM latencies
SELECT run, count(*) AS n FROM events WHERE process = '"nemesis"' GROUP BY run
"""


@pytest.mark.slow
def test_queries_answer_the_same_there(root, uri):
    pytest.importorskip("duckdb", reason="DuckDB is not installed (make test installs it)")
    runs("export", "--to", uri, "--runs", root)
    for query in QUERIES.split("\n")[1:-1]:
        sql = f"{query} ORDER BY ALL"
        local = json.loads(runs("query", sql, "--json", "--runs", root).stdout)
        assert len(local) > 1, sql
        assert json.loads(runs("query", sql, "--json", "--from", uri).stdout) == local, sql


def test_a_query_reads_no_other_file_there(root, uri):
    pytest.importorskip("duckdb", reason="DuckDB is not installed (make test installs it)")
    runs("export", "--to", uri, "--runs", root, "--campaign", "synth*")
    path = f"{root}/synthetic/bad/history.parquet/events.parquet".replace("'", "''")
    other = f"SELECT * FROM '{path}'"
    assert "disabled" in runs("query", other, "--from", uri, code=2).stderr


def test_an_export_that_is_broken_off_does_not_count_nor_what_was_there(root, uri, monkeypatch):
    runs("export", "--to", uri, "--runs", root)
    write = places._write

    def full(filesystem, path, table):
        if path.endswith("other/windows.parquet"):
            raise OSError("the store\nis full")
        write(filesystem, path, table)

    monkeypatch.setattr(places, "_write", full)
    error = runs("export", "--to", uri, "--runs", root, code=2).stderr
    assert error == f"kraftprobe: {uri}: the store is full\n"
    left = f"kraftprobe: {uri}/synthetic/other: it was not exported to its end; left out\n"
    assert listed(uri) == ([GOOD, "bad"], left)
    monkeypatch.setattr(places, "_write", write)
    runs("export", "--to", uri, "--runs", root)
    assert listed(uri) == ([GOOD, "bad", "other"], "")


def test_a_file_that_is_gone_or_of_another_size_makes_the_run_not_count(root, uri):
    runs("export", "--to", uri, "--runs", root)
    there, filesystem = files(uri)

    def put(path, data):
        with filesystem.open_output_stream(path) as file:
            file.write(data)

    for table in sorted(TABLES - {"runs"}):
        lacking, cut = (there[f"synthetic/{run}/{table}.parquet"] for run in ("bad", GOOD))
        whole = {path: filesystem.open_input_file(path).readall() for path in (lacking, cut)}
        filesystem.delete_file(lacking)
        put(cut, b"PAR1")
        names, error = listed(uri)
        assert names == ["other"], table
        assert error.count(f"its {table}.parquet is not") == 2
        for path, data in whole.items():
            put(path, data)
    assert listed(uri)[0] == [GOOD, "bad", "other"]


@pytest.mark.parametrize("content", [b"", b"no parquet", "other"])
def test_a_row_that_no_export_wrote_does_not_count(root, uri, content, tmp_path):
    runs("export", "--to", uri, "--runs", root)
    there, filesystem = files(uri)
    if content == "other":
        table = pq.read_table(root / "synthetic/bad/history.parquet/events.parquet")
        pq.write_table(table, tmp_path / "other.parquet")
        content = (tmp_path / "other.parquet").read_bytes()
    with filesystem.open_output_stream(there["synthetic/bad/runs.parquet"]) as file:
        file.write(content)
    assert listed(uri)[0] == [GOOD, "other"]


@pytest.mark.slow
def test_a_run_that_nobody_judged_is_exported_with_its_row_alone(tmp_path):
    bench = Bench(tmp_path / "bench")
    folder = bench.folder()
    run = bench.copy("good", folder)
    run.results_path.unlink()
    for file in run.parquet_path.iterdir():
        file.unlink()
    run.parquet_path.rmdir()
    uri = f"file://{tmp_path}/there"
    said = runs("export", "--to", uri, "--runs", folder.parent).stdout
    assert ", 1 without operations" in said
    assert [row["verdict"] for row in json.loads(runs("list", "--from", uri, "--json").stdout)] == [
        "not judged"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", " is empty: was a variable not set?"),
        ("runs", "'runs': a place is a URI of file, s3, gs, gcs, abfs, abfss, such as s3://"),
        ("ftp://host/runs", "'ftp://host/runs': a place is a URI of"),
        ("http://[::1/runs", "this is no URI"),
        ("file:runs", "cannot be relative"),
        ("file://host/runs", "Unsupported hostname"),
        ("file:///tmp/a#b", "file:///tmp/a: what is behind '#' would be left out"),
        ("s3://", "it names no bucket or folder"),
        (f"s3://anybody:{SECRET}@bucket/runs", "s3://bucket/runs: give credentials by the"),
        (f"s3://bucket/runs?secret_key={SECRET}", "give credentials by the environment"),
        (f"abfs://c:{SECRET}@a.dfs.core.windows.net/x", "give credentials by the environment"),
        ("s3://bucket/runs?colour=red", "colour"),
        ("s3://absent/runs", "The specified bucket does not exist"),
        ("file:///proc/runs", "file:///proc/runs: "),
    ],
)
@pytest.mark.usefixtures("s3")
def test_a_place_that_cannot_be_is_one_line(root, uri, says):
    for arguments in (
        ["export", "--to", uri],
        ["list", "--from", uri],
        ["query", "select 1", "--from", uri],
    ):
        refused = runs(*arguments, "--runs", root, code=2)
        assert says in refused.stderr
        assert refused.stdout == ""
        assert refused.stderr.count("\n") == 1


def test_without_access_there_is_one_line(root, server, s3):
    """The server asks for keys that it knows, from its next answer on."""
    plain = {"Content-Type": "text/plain"}
    asked = urllib.request.Request(f"{server}/moto-api/reset-auth", b"0", plain)
    urllib.request.urlopen(asked).close()
    try:
        refused = runs("export", "--to", s3, "--runs", root, code=2).stderr
        assert refused.startswith("kraftprobe: s3://bucket/some/runs: ")
        assert refused.count("\n") == 1
        assert runs("list", "--from", s3, code=2).stdout == ""
    finally:
        asked.data = b"Infinity"
        urllib.request.urlopen(asked).close()


@pytest.mark.parametrize("more", [["x.csv", "--to", "file:///x"], [], ["--table", "runs"]])
def test_where_to_is_said_once(root, more):
    assert "give a FILE" in runs("export", *more, "--runs", root, code=2).stderr
