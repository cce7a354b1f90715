"""`antiphon doctor` as a person uses it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import pytest_asyncio
from support.commands import bare_environment
from support.demanding_templates import ALTERNATES, CHECKS_IDS
from support.engine import MockEngine, Refusal
from support.known_engines import KINDS
from support.llamacpp import running_llamacpp
from support.templates import THINKING
from support.tiny_model import write_tiny_model

from antiphon.cli.doctor import make_reports
from antiphon.cli.serve import NoEngine
from antiphon.core.knowledge.help import parameters_in_name
from antiphon.engines.probes.prober import PROBES
from antiphon.settings.settings import Settings
from bench.processes import free_port

CAPABILITIES = [*(probe.capability for probe in PROBES), "help"]


async def doctor(*arguments: str, **environment: str) -> tuple[int, str, str]:
    bare = bare_environment()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "antiphon", "doctor", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=bare | {"COLUMNS": "160"} | environment,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest_asyncio.fixture
async def engines() -> AsyncIterator[dict[str, MockEngine]]:
    async with AsyncExitStack() as stack:
        started = {name: kind.engine() for name, kind in KINDS.items()}
        for engine in started.values():
            await engine.start()
            stack.push_async_callback(engine.stop)
        yield started


async def test_the_table_shows_verdict_remedy_and_flag(engines: dict[str, MockEngine]) -> None:
    engine = engines["vllm without flags"]
    code, out, _ = await doctor("--upstream", engine.url)
    assert code == 0
    assert f"vllm at {engine.url}, model mock" in out
    rows = {row.split("│")[1].strip(): row.split("│")[2].strip() for row in out.splitlines() if row.startswith("│")}
    assert [name for name in rows if name] == CAPABILITIES
    assert (rows["system role"], rows["json_schema"], rows["context window"]) == ("does not", "works", "partly")
    shown = " ".join(out.replace("│", " ").split())
    assert "Antiphon puts the instructions in front of the first user message." in shown
    assert "To fix it on the engine: --enable-auto-tool-choice --tool-call-parser NAME" in shown
    assert "\x1b[" not in out, "colours are for terminals"


@pytest.mark.parametrize("answer", [Refusal(404, {}), Refusal(500, {"error": "no hub cache"}), b'{"data": []}', b"<html>"])
async def test_an_engine_that_lists_no_models_is_tested_with_the_one_that_is_named(
    engines: dict[str, MockEngine], answer: Refusal | bytes
) -> None:
    engine = engines["vllm"]
    engine.list_answer = answer
    settings = Settings(upstream=(engine.url,), dialect="vllm")
    (report,) = await make_reports(settings, None)
    assert report.problem == "the engine lists no models. Name the model to test with --model NAME, or set default_model."
    (report,) = await make_reports(settings, "mine")
    assert (report.problem, report.model, len(report.findings)) == ("", "mine", len(CAPABILITIES))
    (report,) = await make_reports(msgspec.structs.replace(settings, default_model="big"), None)
    assert (report.problem, report.model) == ("", "big")


async def test_the_command_tests_a_model_of_an_engine_that_lists_none(engines: dict[str, MockEngine]) -> None:
    engine = engines["vllm"]
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    code, out, _ = await doctor("--upstream", engine.url, "--model", "mine")
    assert code == 0
    assert f"plain at {engine.url}, model mine" in out
    assert {body["model"] for body in engine.requests} == {"mine"}
    code, out, _ = await doctor("--upstream", engine.url)
    assert code == 1
    assert "Name the model to test with --model NAME, or set default_model." in out


async def test_a_reason_too_long_is_shortened_in_its_middle(engines: dict[str, MockEngine]) -> None:
    engine = engines["vllm"]
    engine.otherwise = lambda body: Refusal(500, {"error": {"message": f"It broke because {'of this and ' * 30}that."}})
    (report,) = await make_reports(Settings(upstream=(engine.url,)), None)
    (detail,) = [finding.detail for finding in report.findings if finding.capability == "system role"]
    assert detail.startswith("The engine failed: It broke because of")
    assert detail.endswith("of this and that.")


async def test_an_engine_that_wants_a_key_is_reported_as_such(engines: dict[str, MockEngine]) -> None:
    engine = engines["vllm"]
    engine.list_answer = Refusal(401, {"error": "Unauthorized"})
    code, out, _ = await doctor("--upstream", engine.url, "--json")
    assert code == 1
    (report,) = msgspec.json.decode(out)["engines"]
    assert report["error"] == "the engine wants an API key, or rejects the one that it got (HTTP 401). Check --upstream-key."


async def test_the_json_has_every_engine_and_what_the_gateway_would_learn(engines: dict[str, MockEngine]) -> None:
    chosen = ("vllm", "ollama", "lmdeploy without a tool parser")
    upstreams = [word for name in chosen for word in ("--upstream", engines[name].url + "/v1")]
    code, out, _ = await doctor(*upstreams, "--json")
    assert code == 0
    reports = msgspec.json.decode(out)["engines"]
    assert [report["dialect"] for report in reports] == ["vllm", "ollama", "lmdeploy"]
    for report in reports:
        assert [entry["capability"] for entry in report["capabilities"]] == CAPABILITIES
        assert report["capabilities"][0].keys() == {"capability", "verdict", "detail", "remedy", "advice"}
    assert reports[0]["learned"]["enforces_required"] is True
    assert reports[1]["learned"]["enforces_required"] is False
    assert reports[2]["learned"]["shows_tools"] is False


@pytest.mark.parametrize(
    ("model", "setting", "verdict", "words", "remedy"),
    [
        (
            "Qwen2.5-Coder-1.5B",
            "auto",
            "given",
            "the model has 1.5 billion parameters. To change it: help = ",
            "offers hard tools as easier functions, stops calls that fail again and again, "
            "starts Codex with fewer features and shorter instructions",
        ),
        ("Qwen2.5-Coder-1.5B", "off", "not given", 'the setting help is "off". To change it', ""),
        ("Qwen3-Coder-480B", "auto", "not given", "the model has 480.0 billion parameters, and needs none.", ""),
        ("big", "auto", "not given", "the number of its parameters is not known", ""),
        ("big", "full", "given", 'the setting help is "full"', "constrains answers to a call or a text"),
    ],
)
async def test_a_row_shows_the_help_that_the_model_gets_and_why(
    engine: MockEngine, model: str, setting: Literal["auto", "off", "full"], verdict: str, words: str, remedy: str
) -> None:
    engine.lists(model)
    (report,) = await make_reports(Settings(upstream=(engine.url,), help=setting), None)
    shown = report.as_json()
    row = shown["capabilities"][-1]
    assert (row["capability"], row["verdict"]) == ("help", verdict)
    assert words in row["detail"]
    assert remedy in row["remedy"] if remedy else row["remedy"] == ""
    assert shown["parameters"] == parameters_in_name(model)


async def test_real_llamacpp_is_tested(tmp_path: Path) -> None:
    with running_llamacpp(write_tiny_model(tmp_path / "tiny.gguf"), template=THINKING) as url:
        code, out, _ = await doctor("--upstream", url, "--model", "tiny", "--json")
    assert code == 0
    (report,) = msgspec.json.decode(out)["engines"]
    assert (report["dialect"], report["model"]) == ("llamacpp", "tiny")
    assert 0 < report["parameters"] < 1_000_000, "as llama.cpp reports it"
    verdicts = {entry["capability"]: entry["verdict"] for entry in report["capabilities"]}
    assert (verdicts["tools"], verdicts["reasoning"], verdicts["required choice"]) == ("does not", "works", "does not")
    assert report["learned"]["shows_tools"] is False


async def test_the_table_names_every_demand_of_the_template_what_is_done_about_it_and_the_flag(tmp_path: Path) -> None:
    with running_llamacpp(write_tiny_model(tmp_path / "tiny.gguf"), template=ALTERNATES) as url:
        code, out, _ = await doctor("--upstream", url)
    assert code == 0
    shown = " ".join(out.replace("│", " ").split())
    for words in (
        "first message does not an assistant message: rejected: conversation roles must alternate user/assistant/...",
        "Antiphon puts a short user message in front of a history that begins otherwise.",
        "To fix it on the engine: --jinja --chat-template-file FILE, with a template that accepts any",
        "user messages in a row does not two user messages: rejected: conversation roles must alternate user/assistant/...",
        "call ids works any id is accepted",
    ):
        assert words in shown


async def test_the_template_of_an_engine_that_does_not_show_it_can_be_named(
    engines: dict[str, MockEngine], tmp_path: Path
) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(CHECKS_IDS)
    code, out, _ = await doctor("--upstream", engines["vllm"].url, "--chat-template", str(file), "--json")
    assert code == 0
    (report,) = msgspec.json.decode(out)["engines"]
    assert report["capabilities"][0] == {
        "capability": "chat template",
        "verdict": "works",
        "detail": "its text is known; it rejects messages in these words: alphanumeric strings with length 9",
        "remedy": "",
        "advice": "",
    }


async def test_an_engine_that_cannot_be_tested_is_reported_beside_the_others(engines: dict[str, MockEngine]) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    code, out, _ = await doctor("--upstream", gone, "--upstream", engines["vllm"].url, "--json")
    assert code == 1
    reports = msgspec.json.decode(out)["engines"]
    assert reports[0] == {"url": gone, "error": "no engine answers at this URL: connection refused"}
    assert reports[1]["dialect"] == "vllm"


async def test_an_unknown_model_is_an_error(engines: dict[str, MockEngine]) -> None:
    code, out, _ = await doctor("--model", "other", ANTIPHON_UPSTREAM=engines["vllm"].url)
    assert code == 1
    assert "the engine has no model other. --model must be one of: mock" in out
    assert engines["vllm"].requests == []


async def test_without_an_upstream_the_well_known_ports_are_searched(
    engines: dict[str, MockEngine],
) -> None:
    port = int(engines["vllm"].url.rpartition(":")[2])
    (report,) = await make_reports(Settings(), None, {port: "vLLM", free_port(): "nobody"})
    assert (report.url, report.dialect, len(report.findings)) == (engines["vllm"].url, "vllm", len(CAPABILITIES))
    empty = {free_port(): "nobody"}
    with pytest.raises(NoEngine, match="no engine was found"):
        await make_reports(Settings(), None, empty)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dialect", "klingon"], "unknown dialect"),
        (["--config", "/no.toml"], "cannot"),
        (["--chat-template", "/no.jinja"], "chat_template: cannot read /no.jinja: No such file or directory"),
    ],
)
async def test_a_wrong_flag_is_an_error(arguments: list[str], message: str) -> None:
    code, _, err = await doctor(*arguments)
    assert code == 2
    assert message in err
