"""When the probes are run, and what counts until they have ended."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from support.engine import CUT, Answer, Body, MockEngine, Refusal, Writer, chunk, text
from support.gateway import running_gateway, started
from support.known_engines import KINDS, Kind, prompt_of, tolerant_objection
from support.raw_server import raw_server

from antiphon.app.options import Intervals
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP
from antiphon.core.knowledge.template_demands import TOOLS
from antiphon.engines.probes.client import ProbeClient
from antiphon.engines.probes.examiner import Examiner, ProbeTimes
from antiphon.engines.probes.findings import NoAnswer, Observation, Verdict
from antiphon.engines.probes.prober import PROBES, Probe
from antiphon.engines.probes.questions import LONG_TOOLS, MARK
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session
from bench.processes import free_port

LOOKUP = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
# So long that nothing in a test depends on it.
NEVER = 3600.0


def hold_back(mock: MockEngine, is_held: Callable[[Body], bool]) -> tuple[asyncio.Event, asyncio.Event]:
    """Such requests are answered once the second event is set; the first one says that one of them has come."""
    sound, asked, go_on = mock.otherwise, asyncio.Event(), asyncio.Event()

    def answers(body: Body) -> Answer:
        async def waiting(write: Writer) -> None:
            asked.set()
            await go_on.wait()
            stream = sound(body)
            assert isinstance(stream, bytes)
            await write(stream)

        return waiting if is_held(body) else text("Hello")

    mock.otherwise = answers
    return asked, go_on


async def ask_for(examiner: Examiner, engine: Engine, model: str) -> None:
    """As the pool does it for a request."""
    if (examining := examiner.asked_for(engine, model)) is not None:
        await examining


@asynccontextmanager
async def examined_by(examiner: Examiner, mock: MockEngine) -> AsyncIterator[Engine]:
    """An engine that this examiner examines when it is found."""
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session)
        engine.when_found, engine.when_asked_for = examiner.found, examiner.asked_for
        try:
            yield engine
        finally:
            await engine.close()
            await examiner.close()


def always(dialect: Dialect) -> bool:
    return True


def never(dialect: Dialect) -> bool:
    return False


def not_busy(engine: Engine) -> bool:
    return False


def silent(run: Callable[[ProbeClient], Awaitable[Observation]], capability: str = TOOLS) -> Probe:
    return Probe(capability, run, always, generates=never)


async def rendered_tools(client: ProbeClient) -> Observation:
    prompt = await client.rendered_prompt(tools=LONG_TOOLS)
    if prompt is None:
        return Observation(Verdict.UNKNOWN, "no prompt is shown")
    return Observation(Verdict.WORKS, "a prompt is shown", facts={"shows_tools": MARK in prompt})


def rendering(*, shows_tools: bool, models: tuple[str, ...] = ("mock",)) -> MockEngine:
    """An engine like llama.cpp, which shows prompts. What it rendered is counted by model."""
    mock = MockEngine(owned_by="llamacpp", paths={"/apply-template": lambda body: render(body)})
    counts: Counter[str] = Counter()
    mock.rendered = counts  # type: ignore[attr-defined]

    def render(body: Body) -> dict[str, str]:
        counts[body["model"]] += 1
        return {"prompt": prompt_of(body, tools=shows_tools)}

    mock._models["data"] = [{"id": model, "object": "model", "owned_by": "llamacpp"} for model in models]
    return mock


def rendered(mock: MockEngine) -> Counter[str]:
    return mock.rendered  # type: ignore[attr-defined,no-any-return]


# ---- without a generation, before the engine is ready ----------------------------------------------------------------


@pytest.mark.parametrize("generates", [True, False], ids=["probed", "not probed"])
async def test_what_generates_nothing_is_known_before_the_engine_is_ready(generates: bool) -> None:
    """Also where probes are switched off: it costs the engine nothing."""
    ready: list[bool] = []

    async def look(client: ProbeClient) -> Observation:
        ready.append(client.engine.ready)
        return await rendered_tools(client)

    mock = rendering(shows_tools=False)
    async with examined_by(Examiner(not_busy, generates=generates, probes=[silent(look)]), mock) as engine:
        await engine.identify()
        assert ready == [False]
        assert engine.ready
        assert engine.knowledge.dialect_for("mock").shows_tools is False
    assert mock.requests == []


async def test_an_engine_that_does_not_answer_is_ready_all_the_same() -> None:
    cancelled = asyncio.Event()

    async def hangs(client: ProbeClient) -> Observation:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    times = ProbeTimes(examination=0.01)
    examiner = Examiner(not_busy, generates=False, times=times, probes=[silent(hangs)])
    async with examined_by(examiner, rendering(shows_tools=False)) as engine:
        await engine.identify()
        assert engine.ready
        assert cancelled.is_set(), "nothing goes on asking"


async def test_a_probe_that_would_have_to_generate_waits_for_the_background() -> None:
    answers: list[str] = []

    async def asks(client: ProbeClient) -> Observation:
        try:
            await client.ask()
        except NoAnswer as reason:
            answers.append(str(reason))
            raise
        answers.append("answered")
        return Observation(Verdict.WORKS, "asked")

    for generates in (False, True):
        mock = MockEngine()
        examiner = Examiner(not_busy, generates=generates, probes=[silent(asks, "asks")])
        async with examined_by(examiner, mock) as engine:
            await engine.identify()
            await examiner.wait()
        assert len(mock.requests) == generates
    without = "it cannot be seen without a generation"
    assert answers == [without, without, "answered"]


async def test_what_was_seen_without_a_generation_is_not_probed_again() -> None:
    runs: list[str] = []

    async def look(client: ProbeClient) -> Observation:
        runs.append("look")
        return await rendered_tools(client)

    async def ask(client: ProbeClient) -> Observation:
        runs.append("ask")
        return Observation(Verdict.WORKS, "asked")

    examiner = Examiner(not_busy, probes=[Probe("other", ask, always), silent(look)])
    async with examined_by(examiner, rendering(shows_tools=True)) as engine:
        await engine.identify()
        assert engine.knowledge.dialect_for("mock").shows_tools
        await examiner.wait()
    assert runs == ["look", "ask"]


async def test_an_engine_is_examined_again_only_if_it_is_another_one() -> None:
    mock = rendering(shows_tools=True)
    examiner = Examiner(not_busy, generates=False, probes=[silent(rendered_tools)])
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        engine.lost()
        await engine.identify()
        assert rendered(mock) == {"mock": 1}, "it is the same after a lost connection"
        mock._models["data"].append({"id": "other", "object": "model", "owned_by": "llamacpp"})
        await engine.read_models()
        assert rendered(mock) == {"mock": 2, "other": 1}


async def test_a_model_that_was_not_examined_at_the_start_is_when_it_is_asked_for() -> None:
    mock = rendering(shows_tools=False, models=tuple(f"model-{at}" for at in range(6)))
    examiner = Examiner(not_busy, generates=False, probes=[silent(rendered_tools)])
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        assert sorted(rendered(mock)) == ["model-0", "model-1", "model-2", "model-3"]
        assert engine.knowledge.dialect_for("model-5").shows_tools
        await asyncio.gather(ask_for(examiner, engine, "model-5"), ask_for(examiner, engine, "model-5"))
        await ask_for(examiner, engine, "model-5")
        await ask_for(examiner, engine, "model-0")
        assert engine.knowledge.dialect_for("model-5").shows_tools is False
    assert rendered(mock) == {f"model-{at}": 1 for at in (0, 1, 2, 3, 5)}


async def test_the_gateway_examines_a_model_before_it_asks_for_it() -> None:
    """Here an engine that lists no models: it may have any."""
    mock = MockEngine(paths={"/apply-template": lambda body: {"prompt": prompt_of(body, tools=False)}})
    mock.list_answer = Refusal(500, {"error": "no hub cache"})
    mock.objects_to = lambda body: None
    port = free_port()
    async with running_gateway(f"http://127.0.0.1:{port}", dialect="llamacpp") as gateway:
        (engine,) = gateway.gateway.pool.engines
        examiner = Examiner(not_busy, generates=False, probes=[silent(rendered_tools)])
        engine.when_found, engine.when_asked_for = examiner.found, examiner.asked_for
        async with started(mock, port):
            await gateway.create(model="any", tools=[LOOKUP])
            assert "tools" not in mock.last
            assert "look_up" in str(mock.last["messages"])


async def test_a_model_is_not_loaded_to_be_examined() -> None:
    """llama.cpp as a router would load it, even to render a prompt."""
    mock = rendering(shows_tools=False, models=("loaded", "unloaded"))
    for entry in mock._models["data"]:
        entry["status"] = {"value": entry["id"]}
    examiner = Examiner(not_busy, probes=[silent(rendered_tools)])
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        await examiner.wait()
        assert rendered(mock) == {"loaded": 1}
        await ask_for(examiner, engine, "unloaded")
        assert rendered(mock) == {"loaded": 1, "unloaded": 1}, "a client asks for it, and it is loaded anyway"
        assert engine.knowledge.dialect_for("unloaded").shows_tools is False


async def test_a_model_that_did_not_answer_in_time_is_examined_again_a_few_times() -> None:
    attempts: list[str] = []

    async def slow(client: ProbeClient) -> Observation:
        attempts.append(client.model)
        if client.model == "slow" or len(attempts) < 2:
            await asyncio.Event().wait()
        return Observation(Verdict.DOES_NOT, "by now it is loaded", facts={"shows_tools": False})

    mock = rendering(shows_tools=False, models=("loading", "slow"))
    for entry in mock._models["data"]:
        entry["status"] = {"value": "unloaded"}
    examiner = Examiner(not_busy, generates=False, times=ProbeTimes(examination=0.05), probes=[silent(slow)])
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        for _ in range(5):
            await ask_for(examiner, engine, "loading")
        assert attempts == ["loading", "loading"]
        assert engine.knowledge.dialect_for("loading").shows_tools is False
        for _ in range(5):
            await ask_for(examiner, engine, "slow")
        assert attempts[2:] == ["slow"] * 3


async def test_examined_names_do_not_pile_up() -> None:
    mock = rendering(shows_tools=True)
    mock.list_answer = Refusal(404, {})
    examiner = Examiner(not_busy, generates=False, probes=[silent(rendered_tools)])
    async with examined_by(examiner, mock) as engine:
        engine.knowledge.dialect = LLAMACPP
        for at in range(300):
            await ask_for(examiner, engine, f"name-{at}")
        assert len(examiner._examinations) <= 257
        assert len(examiner._findings) <= 257
        assert len(examiner._logged) <= 257


# ---- in the background -----------------------------------------------------------------------------------------------


async def test_the_gateway_learns_while_it_serves_requests() -> None:
    mock = KINDS["vllm without flags"].engine()
    asked, go_on = hold_back(mock, lambda body: not body["messages"][0]["content"].endswith("Hi"))
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await asked.wait()
        assert (await gateway.create())["output_text"] == "Hello"
        (engine,) = gateway.gateway.pool.engines
        assert replace(engine.knowledge.dialect_for("mock"), shows_tools=True) == engine.dialect, "nothing has been learned yet"
        go_on.set()
        await gateway.probed()
        dialect = engine.knowledge.dialect_for("mock")
        assert (dialect.reads_calls, dialect.takes_system_role, dialect.enforces_required) == (False, False, True)
        await gateway.create(instructions="Be brief.")
    assert [message["role"] for message in mock.last["messages"]] == ["user"], "and later requests follow what was learned"


async def test_probes_let_clients_go_first() -> None:
    mock = KINDS["vllm"].engine()
    go_on = asyncio.Event()

    async def lasting(write: Writer) -> None:
        await write(chunk({"content": "Hel"}))
        await go_on.wait()
        await write(text("lo"))

    async with started(mock), running_gateway(mock) as gateway:
        (engine,) = gateway.gateway.pool.engines
        mock.will(lasting)
        client = asyncio.create_task(gateway.create())
        await mock.asked.wait()
        examiner = Examiner(gateway.gateway.in_flight.is_busy, times=ProbeTimes(idle_check=0.01, longest_wait=NEVER))
        await examiner.found(engine)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(mock.requests) == 1
        go_on.set()
        await client
        await examiner.wait()
        assert len(mock.requests) > 5


async def test_a_caller_that_stops_waiting_for_probes_does_not_end_them() -> None:
    mock = KINDS["vllm without flags"].engine()
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.gateway.pool.ready_event.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await gateway.examiner.wait()
        await gateway.examiner.wait()
        (engine,) = gateway.gateway.pool.engines
        assert engine.knowledge.dialect_for("mock").reads_calls is False


async def test_an_engine_that_comes_back_is_probed_again() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with running_gateway(url, probe=True, retries=0) as gateway:
        (engine,) = gateway.gateway.pool.engines
        async with started(KINDS["vllm without flags"].engine(), port):
            await gateway.probed()
            assert engine.knowledge.dialect_for("mock").reads_calls is False
        status, _ = await gateway.post({"input": "Hi"})
        assert status == 503
        await engine.identify()
        assert not engine.ready
        async with started(KINDS["vllm"].engine(), port):
            await engine.identify()
            await gateway.examiner.wait()
            dialect = engine.knowledge.dialect_for("mock")
        assert (dialect.reads_calls, dialect.takes_system_role) == (True, True)


async def test_a_lost_connection_alone_does_not_start_the_probes_again() -> None:
    mock = KINDS["vllm"].engine()
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
        asked = len(mock.requests)
        mock.will(_cut_at_once, text("Hello"))
        assert (await gateway.create())["output_text"] == "Hello"
        (engine,) = gateway.gateway.pool.engines
        await engine.identify()
        await gateway.examiner.wait()
    assert len(mock.requests) == asked + 2


async def _cut_at_once(write: Writer) -> None:
    await write(CUT)


async def test_an_engine_that_loads_models_on_demand_is_not_probed_at_the_start() -> None:
    mock = KINDS["ollama"].engine()
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
    assert mock.requests == []


async def test_of_many_models_only_the_first_are_probed_at_the_start() -> None:
    mock = MockEngine()
    mock._models["data"] = [{"id": f"model-{at}", "object": "model", "owned_by": "x"} for at in range(9)]
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
    assert {body["model"] for body in mock.requests} == {f"model-{at}" for at in range(4)}


async def test_probing_can_be_switched_off(engine: MockEngine) -> None:
    async with running_gateway(engine, probe=False) as gateway:
        await gateway.probed()
        await gateway.create()
    assert len(engine.requests) == 1


async def test_the_log_has_a_model_once_unless_something_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    busy, answers, shows_tools = True, asyncio.Event(), True

    async def asks(client: ProbeClient) -> Observation:
        if busy:
            answers.set()
            raise NoAnswer("the engine is busy", may_pass=True)
        return Observation(Verdict.WORKS, "asked", facts={"reads_calls": False})

    async def looks(client: ProbeClient) -> Observation:
        return Observation(Verdict.WORKS, "seen", facts={"shows_tools": shows_tools})

    def logged() -> list[tuple[Any, Any]]:
        probed = [record.members for record in caplog.records if record.getMessage() == "probed"]  # type: ignore[attr-defined]
        return [(members["learned"], members["unknown"]) for members in probed]

    probes = [Probe(TOOLS, asks, always), silent(looks, "looks")]
    examiner = Examiner(not_busy, times=ProbeTimes(retry=0.01), probes=probes)
    async with examined_by(examiner, rendering(shows_tools=True)) as engine:
        await engine.identify()
        for _ in range(3):
            await answers.wait()
            answers.clear()
        # What was seen and what was asked are in one line, and the second busy time has none.
        assert logged() == [({"shows_tools": True}, [TOOLS])]
        busy = False
        await examiner.wait()
        assert logged()[1:] == [({"reads_calls": False, "shows_tools": True}, [])]
        # An engine that was started again, and is the same as before; then another one.
        await examiner.found(engine)
        await examiner.wait()
        assert len(logged()) == 2
        shows_tools = False
        await examiner.found(engine)
        await examiner.wait()
        assert logged()[2:] == [({"reads_calls": False, "shows_tools": False}, [])]


async def test_a_bug_in_a_probe_reaches_no_client(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(client: object) -> Any:
        raise ZeroDivisionError("a bug")

    async with running_gateway(engine) as gateway:
        await gateway.gateway.pool.ready_event.wait()
        examiner = Examiner(not_busy, probes=[Probe("bugs", broken, always), silent(broken, "silent bugs")])
        await examiner.found(gateway.gateway.pool.engines[0])
        await examiner.wait()
        assert (await gateway.create(tools=[LOOKUP]))["output_text"] == "Hello world"
    assert "tools" in engine.last, "and what the dialect says counts"
    assert "probing failed" in [record.getMessage() for record in caplog.records]


async def test_a_busy_engine_is_probed_after_a_while_tools_first() -> None:
    mock = KINDS["vllm"].engine()
    times = ProbeTimes(idle_check=0.01, longest_wait=0.02)
    examiner = Examiner(lambda engine: True, times=times)
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        await examiner.wait()
        assert engine.knowledge.dialect_for("mock").enforces_required
    assert all("tools" not in body for body in mock.requests[:1]), "a plain request shows that there are answers at all"
    assert "tools" in mock.requests[1]


async def test_the_models_of_the_settings_are_probed_on_an_engine_that_lists_none() -> None:
    mock = KINDS["vllm without flags"].engine()
    mock.list_answer = Refusal(500, {"error": "no hub cache"})
    names = {"gpt-5": "big", "gpt-4": "small"}
    async with started(mock), running_gateway(mock, probe=True, default_model="gpt-5", model_names=names) as gateway:
        await gateway.probed()
        (engine,) = gateway.gateway.pool.engines
        assert engine.knowledge.dialect_for("big").reads_calls is False
        assert engine.knowledge.dialect_for("other").reads_calls is True
    assert {body["model"] for body in mock.requests} == {"big", "small"}


# ---- what counts until the probe of tools has ended ------------------------------------------------------------------


def is_probe(body: Body) -> bool:
    return "Hi" not in str(body["messages"][-1]["content"])


def native_and_in_words(mock: MockEngine) -> tuple[int, int]:
    """How many requests of clients had their tools in the field, and how many in the text."""
    asked = [body for body in mock.requests if not is_probe(body)]
    native = [body for body in asked if "tools" in body]
    in_words = [body for body in asked if "tools" not in body and "look_up" in str(body["messages"])]
    assert len(native) + len(in_words) == len(asked), "no tool was left out"
    return len(native), len(in_words)


def with_hidden_tools() -> MockEngine:
    """It accepts tools, and its template drops them: only the length of its prompts shows that."""

    def answers(body: Body) -> Answer:
        prompt = len(prompt_of(body, tools=False).split())
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
        return b"".join([chunk({"content": "Hello."}), chunk(finish="stop"), chunk(usage=usage)])

    return Kind("vllm", tolerant_objection, answers).engine()


async def test_tools_are_in_the_text_if_their_probe_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    mock = KINDS["vllm"].engine()
    asked, go_on = hold_back(mock, is_probe)
    intervals = Intervals(probes=ProbeTimes(tools=0))
    async with started(mock), running_gateway(mock, probe=True, intervals=intervals) as gateway:
        await asked.wait()
        response = await gateway.create(tools=[LOOKUP])
        assert "antiphon_notices" not in response
        assert native_and_in_words(mock) == (0, 1)
        go_on.set()
        await gateway.probed()
        await gateway.create(tools=[LOOKUP])
        assert native_and_in_words(mock) == (1, 1)
    logged = [record.getMessage() for record in caplog.records]
    assert "requests with tools wait for the probe of tools" in logged


@pytest.mark.parametrize("settings", [{"probe": False}, {"probe": True}], ids=["switched off", "loads on demand"])
async def test_without_probes_the_dialect_counts_at_once(settings: dict[str, Any]) -> None:
    mock = KINDS["ollama" if settings["probe"] else "vllm"].engine()
    async with started(mock), running_gateway(mock, **settings) as gateway:
        await gateway.create(tools=[LOOKUP])
    assert native_and_in_words(mock) == (1, 0)


async def test_the_dialect_counts_where_the_probe_could_not_tell() -> None:
    mock = MockEngine()
    mock.otherwise = lambda body: b"".join([chunk({"content": "Hello."}), chunk(finish="stop")])
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
        await gateway.create(tools=[LOOKUP])
    assert native_and_in_words(mock) == (1, 0)


@pytest.mark.parametrize(
    ("status", "is_asked_again"), [(500, True), (503, True), (429, True), (404, False), (401, False), (400, False)]
)
async def test_an_engine_that_was_too_busy_to_answer_is_probed_again(status: int, is_asked_again: bool) -> None:
    mock = with_hidden_tools()
    mock.will(*[Refusal(status, {"error": {"message": "not now"}})] * 3)
    seen: list[tuple[bool, bool]] = []

    def is_busy(engine: Engine) -> bool:
        dialect = engine.knowledge.dialect_for("mock")
        seen.append((engine.knowledge.assumes("mock"), dialect.shows_tools))
        return False

    tools_only = [probe for probe in PROBES if probe.capability == TOOLS]
    examiner = Examiner(is_busy, times=ProbeTimes(retry=0.01), probes=tools_only)
    async with examined_by(examiner, mock) as engine:
        await engine.identify()
        await examiner.wait()
        assert engine.knowledge.dialect_for("mock").shows_tools is not is_asked_again
    if is_asked_again:
        assert set(seen) == {(True, False)}, "the safe way is taken until there is an answer"


async def test_only_what_was_not_answered_is_probed_again() -> None:
    runs: list[str] = []

    async def tools(client: ProbeClient) -> Observation:
        runs.append("tools")
        if len(runs) < 4:
            raise NoAnswer("busy")
        return Observation(Verdict.WORKS, "the model sees them", facts={"shows_tools": True})

    async def other(client: ProbeClient) -> Observation:
        runs.append("other")
        return Observation(Verdict.WORKS, "answered")

    probes = [Probe("other", other, always), Probe(TOOLS, tools, always)]
    examiner = Examiner(not_busy, times=ProbeTimes(retry=0.001), probes=probes)
    async with examined_by(examiner, MockEngine()) as engine:
        await engine.identify()
        await examiner.wait()
        assert engine.knowledge.dialect_for("mock").shows_tools
    assert runs == ["tools", "other", "tools", "tools"]


async def test_an_engine_that_comes_back_may_have_another_template() -> None:
    """What was learned of its tools does not count until it has been seen again."""
    port = free_port()
    async with running_gateway(f"http://127.0.0.1:{port}", probe=True, retries=0) as gateway:
        (engine,) = gateway.gateway.pool.engines
        async with started(KINDS["vllm"].engine(), port):
            await gateway.probed()
            assert engine.knowledge.dialect_for("mock").shows_tools
        assert (await gateway.post({"input": "Hi"}))[0] == 503
        await engine.identify()
        assert not engine.ready
        silent_engine = with_hidden_tools()
        silent_engine.otherwise = lambda body: text("Hello")
        async with started(silent_engine, port):
            await engine.identify()
            assert engine.knowledge.dialect_for("mock").shows_tools is False
            await gateway.examiner.wait()


async def test_a_saturated_engine_never_gets_tools_that_it_cannot_show() -> None:
    mock = with_hidden_tools()
    intervals = Intervals(probes=ProbeTimes(idle_check=0.01, longest_wait=0.02))
    async with started(mock), running_gateway(mock, probe=True, intervals=intervals) as gateway:
        (engine,) = gateway.gateway.pool.engines
        known = asyncio.Event()

        async def asks_back_to_back() -> None:
            while not known.is_set():
                await gateway.create(tools=[LOOKUP])

        clients = [asyncio.create_task(asks_back_to_back()) for _ in range(8)]
        await gateway.probed()
        known.set()
        await asyncio.gather(*clients)
        await gateway.create(tools=[LOOKUP])
        assert engine.knowledge.dialect_for("mock").shows_tools is False
    native, in_words = native_and_in_words(mock)
    assert native == 0
    assert in_words > 8


# ---- the end of a gateway --------------------------------------------------------------------------------------------


async def _closed_while(url: str, waiting: asyncio.Event, caplog: pytest.LogCaptureFixture, **options: Any) -> list[str]:
    """What is logged when a gateway ends as soon as the engine is being asked."""
    async with running_gateway(url, **options):
        await waiting.wait()
    gc.collect()
    return [record.getMessage() for record in caplog.records if record.name == "asyncio"]


async def test_a_gateway_that_ends_during_a_detection_leaves_no_task_behind(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def says_nothing(writer: asyncio.StreamWriter) -> None:
        asked.set()

    async with raw_server(lambda head: says_nothing) as server:
        assert await _closed_while(server.url, asked, caplog) == []
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "_detect" in repr(task.get_coro())]


async def test_a_gateway_that_ends_during_its_probes_leaves_no_task_behind(caplog: pytest.LogCaptureFixture) -> None:
    mock = KINDS["vllm"].engine()

    async def says_nothing(write: Writer) -> None:
        await asyncio.Event().wait()

    mock.otherwise = lambda body: says_nothing
    async with started(mock):
        assert await _closed_while(mock.url, mock.asked, caplog, probe=True) == []
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "_probe" in repr(task.get_coro())]
