"""A recording is downloaded as a file and replayed."""

from pathlib import Path

import pytest
from support.commands import bare_environment, shown_by
from support.engine import MockEngine, Refusal, answer, chunk
from support.gateway import running_gateway
from support.inspector import KEYS, bearing, rows


async def run(*arguments: str) -> tuple[int, bytes, str]:
    code, out, err = await shown_by(*arguments, env=bare_environment())
    return code, out.encode(), err


async def test_a_recording_is_replayed_to_the_bytes_that_the_client_got(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(answer(chunk({"reasoning_content": "Hm"}), chunk({"content": "Yes"})))
    async with running_gateway(engine, **KEYS) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True, "store": False}
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=body, **bearing("ann")) as answered:
            got = await answered.read()
        await rows(gateway, **bearing("ann"))
        async with gateway.client.get(f"{gateway.url}/inspector/requests/1/recording", **bearing("ann")) as answered:
            assert answered.headers["Content-Disposition"] == 'attachment; filename="antiphon-1.json"'
            recording = await answered.read()
    assert b"key-of-ann" not in recording
    file = tmp_path / "antiphon-1.json"
    file.write_bytes(recording)
    assert await run("replay", str(file)) == (0, got, "")


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b'{"antiphon_recording": 99}', 2, "version 99"),
        (b'{"antiphon_recording": 1, "body": 3}', 2, "damaged"),
    ],
)
async def test_a_file_that_is_no_recording_is_refused(data: bytes, status: int, message: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(data)
    code, out, err = await run("replay", str(file))
    assert (code, out) == (status, b"")
    assert message in err


async def test_a_refused_request_has_no_recording(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "input": 7})
        status, body = await gateway.get("/inspector/requests/1/recording")
    assert status == 404
    assert "refused before it ran" in body["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_replay_of_a_refused_request_is_its_error(engine: MockEngine, tmp_path: Path, stream: bool) -> None:
    engine.will(Refusal(400, {"error": {"message": "No such thing."}}))
    async with running_gateway(engine) as gateway:
        assert (await gateway.post({"model": "mock", "input": "Hi", "stream": stream}))[0] == 400
        await rows(gateway)
        async with gateway.client.get(f"{gateway.url}/inspector/requests/1/recording") as answered:
            file = tmp_path / "refused.json"
            file.write_bytes(await answered.read())
    status, out, err = await run("replay", str(file))
    assert (status, out) == (1, b""), err
    assert err == "antiphon: the client got an error, and no events: 400 The engine refused the request: No such thing.\n"
