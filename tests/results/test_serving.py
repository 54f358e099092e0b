"""The server of pages shows runs, and nothing else of the machine."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from harness.commands.serve import serve
from harness.errors import UsageError
from results.serving import FILES, RunServer


@pytest.fixture
def root(tmp_path):
    """A folder with one run, and a secret beside it."""
    (tmp_path / "secret").write_text("a secret")
    folder = tmp_path / "runs" / "quick" / "a <b> #1"
    (folder / "nodes" / "n1").mkdir(parents=True)
    (folder / "nodes" / "n1" / "node.key").write_text("a secret")
    for name in FILES:
        (folder / name).write_text(f"<b>{name}</b>" if name != "plan.json" else '{"version": 9}')
    return tmp_path / "runs"


@pytest.fixture
def server(root):
    with RunServer(root, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


RUN = "/quick/a%20%3Cb%3E%20%231"


def test_the_index_is_made_anew_for_each_request(server, root):
    code, page, headers = ask(server, "/")
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"a &lt;b&gt; #1" in page
    assert f'href="{RUN[1:]}/report.html"'.encode() in page
    (root / "quick" / "later").mkdir()
    (root / "quick" / "later" / "plan.json").write_text("{}")
    assert b"later" in ask(server, "/")[1]
    assert not (root / "index.html").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_run_is_text_and_its_report_a_page(server, name):
    code, data, headers = ask(server, f"{RUN}/{name}")
    assert (code, headers["Content-Type"]) == (200, FILES[name])
    assert data == (server.folder / "quick" / "a <b> #1" / name).read_bytes()
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Content-Type"].startswith("text/plain") or name == "report.html"


@pytest.mark.parametrize(
    "path",
    [
        *("/../secret", "/%2e%2e/secret", "/quick/../../secret", "//etc/passwd", "/etc/passwd"),
        *(f"{RUN}/nodes/n1/node.key", f"{RUN}/nodes", f"{RUN}/", "/quick", "/quick/"),
        *("/..%2fsecret/a/report.html", "/quick/..%2f../report.html", "/quick/%00/report.html"),
        *(
            "/quick/./report.html",
            "/quick//report.html",
            f"{RUN}/report.html/",
            "/%ff/%fe/plan.json",
        ),
    ],
)
def test_nothing_else_is_there(server, path):
    code, data, _ = ask(server, path)
    assert (code, data) == (404, b"there is no such page\n")


def test_no_link_leads_out_of_the_folder(server, root, tmp_path):
    outside = tmp_path / "outside" / "run"
    outside.mkdir(parents=True)
    (outside / "report.html").write_text("a secret")
    (root / "linked").symlink_to(outside.parent)
    (root / "quick" / "linked").symlink_to(outside)
    inside = root / "quick" / "linked-file"
    inside.mkdir()
    (inside / "report.html").symlink_to(outside / "report.html")
    os.mkfifo(inside / "plan.json")
    for path in (
        "linked/run/report.html",
        "quick/linked/report.html",
        "quick/linked-file/report.html",
    ):
        assert ask(server, f"/{path}")[0] == 404
    assert ask(server, "/quick/linked-file/plan.json")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost.evil:80", "", "[::1]:80"])
def test_a_request_by_another_name_is_refused(server, host):
    code, data, _ = ask(server, "/", Host=host)
    assert code == 403
    assert b"quick" not in data


def test_localhost_is_the_same_address(server):
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(server, method):
    assert ask(server, "/", method)[0] == 501
    code, data, headers = ask(server, f"{RUN}/report.html", "HEAD")
    assert (code, data, headers["Content-Length"]) == (200, b"", str(len("<b>report.html</b>")))


def test_a_port_in_use_and_a_folder_that_is_not_there_are_one_line(root, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} of 127\.0\.0\.1 cannot be had"):
            serve.main([str(root), "--port", str(port)], standalone_mode=False)
    with pytest.raises(UsageError, match="no such folder of runs"):
        serve.main([str(tmp_path / "none")], standalone_mode=False)


def test_ctrl_c_ends_it_as_every_command(root):
    program = "from harness.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(root), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline().startswith("http://127.0.0.1:")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (130, "", "kraftprobe: interrupted\n")
