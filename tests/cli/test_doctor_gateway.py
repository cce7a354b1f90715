"""`antiphon doctor` without options: it tests the engines of the gateway that is running, and shows what that has learned."""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest
from msgspec import structs
from support.commands import bare_environment, served, shown_by
from support.engine import MockEngine, Refusal, text
from support.tiny_model import write_tiny_model

from antiphon.cli.doctor import NOTHING_TO_CHANGE, OWN_ENGINE, Report, conclusion
from antiphon.engines.probes.findings import Finding, Verdict
from bench.processes import free_port

ALTERNATE = {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}


async def doctor(*arguments: str, **environment: str) -> tuple[int, str, str]:
    return await shown_by("doctor", *arguments, env=bare_environment(COLUMNS="160", **environment))


async def test_the_engines_of_the_gateway_are_tested_and_what_it_has_learned_is_shown(
    engine: MockEngine, tmp_path: Path
) -> None:
    port, data = free_port(), {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with served("--port", str(port), "--upstream", engine.url, **data):
        code, out, _ = await doctor(**data)
        assert code == 0
        assert f"plain at {engine.url}, model mock" in out
        assert f"The gateway at http://127.0.0.1:{port} has learned nothing else of mock." in out
        engine.will(Refusal(400, ALTERNATE), text("Fine"))
        said = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": said}) as answer,
        ):
            assert answer.status == 200
        _, out, _ = await doctor(**data)
        assert f"What the gateway at http://127.0.0.1:{port} has learned of mock" in out
        cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "alternates" in line]
        assert cells == [["alternates", "learned", "user and assistant have to alternate"]]
        _, out, _ = await doctor("--json", **data)
        document = json.loads(out)
        assert document["gateway"] == f"http://127.0.0.1:{port}"
        assert [fact["name"] for fact in document["engines"][0]["known_by_gateway"]] == ["alternates", "begins_with_user"]
        # Doctor has no key for this engine, and says so; what the gateway knows of it is shown all the same.
        engine.list_answer = Refusal(401, {})
        code, out, _ = await doctor(**data)
        assert code == 1
        assert "wants an API key" in out
        assert "user and assistant have to alternate" in out


def test_the_last_line_says_what_to_change() -> None:
    works = Finding("tools", Verdict.WORKS, "", "", "", {})
    partly = Finding("images", Verdict.PARTLY, "", "leaves them out", "start it with --mmproj", {})
    report = Report("http://e", "plain", "m", [works, partly])
    assert conclusion(report) == "To change on the engine, as the table says: images."
    assert conclusion(structs.replace(report, findings=[works])) == NOTHING_TO_CHANGE
    assert conclusion(structs.replace(report, is_embedded=True)) == OWN_ENGINE


async def test_an_engine_that_is_named_is_tested_for_itself(engine: MockEngine, tmp_path: Path) -> None:
    other = MockEngine()
    await other.start()
    try:
        async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
            _, out, _ = await doctor("--upstream", other.url, "--json", ANTIPHON_DATA_DIR=str(tmp_path))
    finally:
        await other.stop()
    document = json.loads(out)
    assert document["gateway"] is None
    assert [report["url"] for report in document["engines"]] == [other.url]
    assert document["engines"][0]["known_by_gateway"] is None


@pytest.mark.timeout(240)
async def test_the_embedded_engine_is_shown_as_its_gateway_knows_it(tmp_path: Path) -> None:
    weights = tmp_path / "tiny.gguf"
    write_tiny_model(weights)
    data = {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with served("--port", "0", "--model", str(weights), **data) as (_, line):
        assert "ready" in line
        code, out, err = await doctor(**data)
        _, as_json, _ = await doctor("--json", **data)
        _, shown, _ = await run("ps", **data)
    assert (code, err) == (0, "")
    assert "embedded llamacpp at http://127.0.0.1:" in out
    assert "model tiny, as the gateway at http://127.0.0.1:" in out
    assert "the engine closes a connection after each stream" in out
    assert out.rstrip().endswith(OWN_ENGINE)
    (report,) = json.loads(as_json)["engines"]
    assert (report["embedded"], report["model"]) == (True, "tiny")
    assert "  embedded llamacpp" in shown
    assert "2 slots" in shown


async def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "antiphon", *arguments, stdout=pipe, stderr=pipe, env=bare_environment(**environment)
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_a_gateway_that_is_named_as_an_engine_is_recognized(engine: MockEngine, tmp_path: Path) -> None:
    data, url = {"ANTIPHON_DATA_DIR": str(tmp_path)}, f"http://127.0.0.1:{free_port()}"
    async with served("--port", url.rpartition(":")[2], "--upstream", engine.url, **data):
        code, _, err = await doctor("--json", "--upstream", f"{url}/v1", **data)
        assert (code, f"antiphon: {url} is a gateway, not an engine." in err) == (0, True)
        _, _, err = await doctor("--json", "--upstream", engine.url, **data)
        assert "is a gateway" not in err


async def test_a_gateway_that_needs_a_key_says_so_and_engines_are_searched_for(engine: MockEngine, tmp_path: Path) -> None:
    data = {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with served("--port", "0", "--upstream", engine.url, "--api-key", "k", **data):
        _, _, err = await doctor("--json", **data)
        assert "needs a key. Set ANTIPHON_API_KEY to one" in err
        assert "no engine was found" not in err, "the gateway may have engines"
        code, out, _ = await doctor("--json", **data, ANTIPHON_API_KEY="k")
        assert code == 0
        assert [report["url"] for report in json.loads(out)["engines"]] == [engine.url]
