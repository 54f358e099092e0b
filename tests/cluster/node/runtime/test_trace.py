import json
import uuid
import zlib

import pytest

from cluster.node.runtime.trace import JsonLinesTrace


def lines(path):
    return path.read_bytes().split(b"\n")


def test_an_event_is_one_line_at_once(tmp_path):
    trace = JsonLinesTrace(tmp_path / "trace")
    trace("vote", epoch=3, candidate_directory_id=uuid.UUID(int=7), granted=True)
    (line, rest) = lines(tmp_path / "trace")
    event = json.loads(line)
    assert rest == b""
    assert isinstance(event.pop("t"), int)
    assert event.pop("crc") == zlib.crc32(line[: line.index(b',"crc"')])
    assert event == {
        "n": 0, "e": "vote", "epoch": 3, "granted": True,
        "candidate_directory_id": "00000000-0000-0000-0000-000000000007",
    }  # fmt: skip
    trace.close()


def test_time_does_not_go_back(tmp_path):
    trace = JsonLinesTrace(tmp_path / "trace")
    for _ in range(100):
        trace("hw")
    times = [json.loads(line)["t"] for line in lines(tmp_path / "trace")[:-1]]
    assert times == sorted(times)
    trace.close()


def test_each_opening_is_the_next_incarnation(tmp_path):
    for expected in range(3):
        trace = JsonLinesTrace(tmp_path / "trace")
        assert trace.incarnation == expected
        trace("start")
        trace.close()


@pytest.mark.parametrize("torn", [b'{"t":1,"n":4,"e":"h', b"x", b'{"n":9'])
def test_a_torn_last_line_is_kept_apart(tmp_path, torn):
    path = tmp_path / "trace"
    path.write_bytes(b'{"t":1,"n":4,"e":"hw"}\n' + torn)
    trace = JsonLinesTrace(path)
    trace("start")
    trace.close()
    assert trace.incarnation == 5
    assert lines(path)[1] == torn
    assert json.loads(lines(path)[2])["n"] == 5


def test_the_last_line_is_found_in_a_long_trace(tmp_path):
    path = tmp_path / "trace"
    path.write_text("".join(f'{{"t":{i},"n":{i // 1000},"e":"hw"}}\n' for i in range(10_000)))
    trace = JsonLinesTrace(path)
    assert trace.incarnation == 10
    trace.close()


def test_a_field_that_is_not_plain_data_is_refused(tmp_path):
    trace = JsonLinesTrace(tmp_path / "trace")
    with pytest.raises(TypeError):
        trace("hw", offset=object())
    trace.close()
