"""`python -m bench`: the mock engine and the clients in C, the rows, the table and the picture."""

import contextlib
import http.client
import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from bench.__main__ import Run, lighter_words
from bench.native import Load, Programs, programs
from bench.picture import LINES, picture, ratios
from bench.processes import BenchFailed, cpu_times, family, memory_kb
from bench.requests import Api, Asked, Kind, request
from bench.results import SHORT_LOADS, Results, Row, Shown, footnotes, table
from bench.scenarios import (
    BESIDE,
    CPU_PER_DELTA,
    CPU_PER_REQUEST,
    QUICK,
    SCENARIOS,
    Scenario,
    Size,
    closed,
    fewer_streams,
    paced,
    steady,
)
from bench.subjects import SUBJECTS, Command, Missing, Place, Subject

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs(tmp_path_factory.mktemp("native")) as found:
        yield found


def body_of(api: Api, asked: Asked) -> bytes:
    return request(api, asked).partition(b"\r\n\r\n")[2]


def asked_engine(port: int, asked: Asked) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", body_of("chat", asked))
        return connection.getresponse().read()


# ---- the engine ------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "member"), [("text", "content"), ("reasoning", "reasoning_content"), ("think", "content"), ("calls", "tool_calls")]
)
def test_the_engine_sends_as_many_deltas_of_a_kind_as_the_text_asks_for(tools: Programs, kind: Kind, member: str) -> None:
    frames = asked_engine(tools.engine_port, Asked(kind, interval=1, deltas=20)).split(b"\n\n")
    assert frames[-2:] == [b"data: [DONE]", b""]
    chunks = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    around = {"text": 0, "reasoning": 0, "think": 3, "calls": 3}[kind]
    assert sum(bool(delta.get(member)) for delta in deltas) == 20 + around
    assert chunks[-1]["usage"]["completion_tokens"] == 20


@needs_compiler
def test_the_engine_answers_whole_where_no_stream_is_asked_for(tools: Programs) -> None:
    answer = json.loads(asked_engine(tools.engine_port, Asked(stream=False, deltas=3)))
    assert answer["choices"][0]["message"]["content"] == " the answer to"


@needs_compiler
def test_a_stream_without_pauses_is_whole_however_long_it_is(tools: Programs) -> None:
    assert asked_engine(tools.engine_port, Asked(deltas=20_000)).count(b'"content":" ') > 18_000


# ---- the clients -----------------------------------------------------------------------------------------------------


@needs_compiler
def test_the_clients_count_every_delta_of_every_answer(tools: Programs) -> None:
    load = Load(Asked(interval=1, deltas=10), connections=5, requests=40, warm=0)
    found = tools.measure("chat", tools.engine_port, tools.engine_pid, load)
    # Each answer has four frames beside its deltas: of the role, of the end, of the usage; `[DONE]` has no id.
    assert found.deltas >= 40 * 10
    assert found.completed == 40
    assert found.cpu > 0
    assert 0 < found.latency.first_event.p50 <= found.latency.whole.p50 <= found.latency.whole.p99


@needs_compiler
def test_a_window_counts_what_comes_while_all_streams_run(tools: Programs) -> None:
    load = paced("text", 20, 50)(Size(0.5))
    found = tools.measure("chat", tools.engine_port, tools.engine_pid, load)
    assert 0 < found.deltas < load.requests * load.asked.deltas


@needs_compiler
@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "not a 200"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not whole"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "closed before"),
    ],
)
def test_an_answer_that_is_not_whole_ends_the_load_with_its_reason(tools: Programs, answer: bytes, word: str) -> None:
    with (
        answering(answer) as port,
        pytest.raises(BenchFailed, match=word),
    ):
        tools.measure("chat", port, tools.engine_pid, Load(Asked(), 1, 1))


@needs_compiler
def test_marks_are_found_in_pieces_of_one_byte(tools: Programs) -> None:
    body = b'event: x\ndata: {"type":"response.output_text.delta","delta":"a"}\n\ndata: {"status":"completed"}\n\n'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n") as port:
        found = tools.measure("responses", port, tools.engine_pid, Load(Asked(), 1, 1))
    assert (found.completed, found.chunks, found.deltas) == (1, len(body), 1)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that sends this to each client, and closes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


# ---- a run -----------------------------------------------------------------------------------------------------------


def proxy(place: Place) -> Command:
    return Command([sys.executable, "-m", "bench.proxy", str(place.port), f"http://127.0.0.1:{place.engine}"])


def absent(place: Place) -> Command:
    raise Missing("it is not installed")


@needs_compiler
def test_a_run_measures_each_subject_and_says_why_one_is_missing(tools: Programs, tmp_path: Path) -> None:
    subjects = {"nginx": Subject("nginx", "chat", proxy), "litellm": Subject("litellm", "responses", absent)}
    pairs = (("nginx", "nginx"), ("litellm", "litellm"))
    scenarios = [
        Scenario("whole", "whole answer", closed(Asked(stream=False), 20, 4), (CPU_PER_REQUEST,), pairs),
        Scenario("flat", "flat out", closed(Asked(deltas=100), 8, 4), (CPU_PER_DELTA,), pairs),
    ]
    run = Run(scenarios, Size(), tools, tmp_path)
    with contextlib.ExitStack() as stack:
        run.start(subjects, stack)
        for number in range(2):
            run.round(number)
    for row in run.rows():
        assert [value > 0 for value in row.values["nginx"]] == [True, True]
        assert row.missing == {"litellm": "it is not installed"}
    assert [row.shown.scenario for row in run.rows()] == ["whole", "flat"]


def test_every_row_has_a_name_of_its_own_and_subjects_that_exist() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    for scenario in SCENARIOS:
        assert {name for _, name in scenario.subjects} <= {*SUBJECTS, BESIDE}
        assert scenario.beside is None or scenario.beside in names


def test_no_stream_of_a_paced_load_ends_within_the_window() -> None:
    for scenario in SCENARIOS:
        for size in (Size(), QUICK):
            load = scenario.load(size)
            if load.begin and load.asked.interval:
                assert load.asked.deltas * load.asked.interval / 1000 > load.end
                assert load.requests / load.rate < load.begin


def test_a_steady_load_lasts_beyond_the_window() -> None:
    for size in (Size(), QUICK):
        load = steady(Asked(stream=False), 400, connections=200)(size)
        assert load.requests / load.rate > load.end


def test_two_workers_have_twice_the_connections_of_one() -> None:
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    for name in ("whole", "stream"):
        one, two = by_name[name].load(QUICK), by_name[f"{name}-two"].load(QUICK)
        assert (two.connections, two.requests - two.warm) == (2 * one.connections, 2 * (one.requests - one.warm))


def test_a_smaller_load_is_described() -> None:
    whole = paced("text", 1000, 10)(Size())
    assert lighter_words(fewer_streams(whole), whole) == "50 at once"


def test_both_protocols_ask_for_the_same() -> None:
    for asked in (Asked(), Asked("calls", 1, 5), Asked(history=True)):
        ours, theirs = (json.loads(body_of(api, asked)) for api in ("responses", "chat"))
        assert asked.text in json.dumps(ours["input"])
        assert asked.text in theirs["messages"][-1]["content"]
        assert len(ours.get("tools", ())) == len(theirs.get("tools", ()))
    assert 250_000 < len(body_of("responses", Asked(history=True))) < 350_000


def test_a_process_that_has_ended_takes_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert (family(child.pid), cpu_times(child.pid), memory_kb(child.pid)) == ([child.pid], {child.pid: 0}, 0)


def test_the_cpu_time_and_the_memory_of_a_process_are_read() -> None:
    times = cpu_times(os.getpid())
    assert times[os.getpid()] > 0
    assert memory_kb(os.getpid()) > 10_000


# ---- the table and the picture ---------------------------------------------------------------------------------------

DELTA = Shown("text-1000", "1,000 streams × 10/s, text", "CPU per delta", "µs")
FLAT = Shown("flat-out", "64 streams", "deltas a second", "1/s", more_is_better=True)
WHOLE = Shown("whole", "whole answer", "CPU per request", "ms")
SQLITE = WHOLE._replace(scenario="whole-sqlite", load="whole answer, SQLite")
FOUND = Results(
    date="2026-01-02",
    machine={"cpu": "a <fast> CPU"},
    versions={"antiphon": "1.0", "nginx": "1.22"},
    rounds=3,
    quick=False,
    rows=[
        Row(
            DELTA,
            {"nginx": [20, 21, 22], "proxy": [60], "antiphon": [31.5, 30, 40], "litellm": [630]},
            {},
            lighter="50 at once",
        ),
        Row(FLAT, {"nginx": [100_000.0], "antiphon": [50_000.0]}, {"litellm": "it would take minutes"}),
        Row(WHOLE, {"nginx": [0.02], "antiphon": [0.5], "litellm": [15.0]}, {}),
        Row(SQLITE, {"antiphon": [0.6]}, {}, beside="whole"),
    ],
)


def test_the_table_has_medians_with_their_spread_and_ratios() -> None:
    lines = table(FOUND).splitlines()
    assert lines[2] == (
        "| 1,000 streams × 10/s, text | CPU per delta, µs | 21.0 (20.0 to 22.0) | 60.0 | **31.5 (30.0 to 40.0)** | 1.50 "
        "| 630 at 50 at once | 20.0 |"
    )


def test_a_row_without_figures_of_others_is_compared_with_the_row_beside() -> None:
    assert (
        table(FOUND).splitlines()[5] == "| whole answer, SQLite | CPU per request, ms | – | – | **0.600** | 30.0 | – | 25.0 |"
    )


def test_what_was_not_measured_is_listed_with_its_reason() -> None:
    missing = "Not measured:\n\n- litellm: it would take minutes (flat-out).\n"
    assert footnotes(FOUND) == missing
    assert footnotes(structs.replace(FOUND, quick=True)) == f"{SHORT_LOADS}\n{missing}"


def test_the_picture_shows_multiples_of_nginx_also_of_rates() -> None:
    assert ratios(FOUND, LINES[0]) == {"proxy": pytest.approx(60 / 21), "antiphon": 1.5, "litellm": 30}
    assert ratios(FOUND, next(line for line in LINES if line.scenario == "flat-out")) == {"antiphon": 2.0}
    assert ratios(FOUND, LINES[1]) == {}


def test_the_picture_is_an_svg_for_light_and_dark_pages() -> None:
    text = picture(FOUND)
    root = ElementTree.fromstring(text)
    shown = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"1.5 ×", "30 ×", "2 ×", "CPU per delta", "LiteLLM"} <= set(shown)
    assert "prefers-color-scheme: dark" in text
    bars = [float(rect.attrib["x"]) + float(rect.attrib["width"]) for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert max(bars) <= 860
