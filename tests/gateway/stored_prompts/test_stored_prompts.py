"""Prompts from Markdown files: text with variables, and a front matter for the model, tools and format."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.background import Background
from support.engine import MockEngine, text
from support.gateway import running_gateway

from antiphon.app.checked_settings import load_settings
from antiphon.errors import InvalidRequest
from antiphon.gateway.stored_prompts.folder import LARGEST, UnusablePrompt, read_folder, watch_folder
from antiphon.gateway.stored_prompts.prompts import LONGEST, StoredPrompts
from antiphon.settings.errors import SettingsError
from antiphon.wire.responses import CreateResponse

REPLY = """+++
model = "mock"
temperature = 0.25
tools = [{type = "function", name = "look_up", parameters = {type = "object", properties = {}}}]

[text.format]
type = "json_schema"
name = "reply"
schema = {type = "object", properties = {}}

[variables]
tone = "friendly"
+++
You answer {{customer}} in a {{ tone }} tone.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "reply.md").write_text(REPLY)
    for version in ("9", "10"):
        (folder / f"greet@{version}.md").write_text(f"Greet {version}.")
    return folder


async def test_a_request_is_filled_with_the_prompt_that_it_names(folder: Path, engine: MockEngine) -> None:
    async with running_gateway(engine, prompts=str(folder)) as gateway:
        engine.otherwise = lambda body: text("{}")
        prompt = {"id": "reply", "variables": {"customer": {"type": "input_text", "text": "Ada"}}}
        body: dict[str, Any] = {"input": "Where is it?", "prompt": prompt, "instructions": "Be brief."}
        status, response = await gateway.post(body)
        assert status == 200, response
        sent = engine.last
        assert sent["messages"][0]["content"].startswith("You answer Ada in a friendly tone.\n\nBe brief.")
        assert (sent["temperature"], sent["tools"][0]["function"]["name"]) == (0.25, "look_up")
        assert response["text"]["format"]["name"] == "reply"
        # What the request has itself wins.
        prompt["variables"]["tone"] = "formal"  # type: ignore[index]
        await gateway.post(body | {"temperature": 1, "tools": [], "store": False})
        assert "formal tone" in engine.last["messages"][0]["content"]
        assert engine.last["temperature"] == 1
        # The newest version, or the one that is named; also when it is run later.
        for version, said in (({}, "Greet 10."), ({"version": "9"}, "Greet 9.")):
            named = {"input": "Hi", "model": "mock", "prompt": {"id": "greet", **version}}
            await gateway.post(named)
            assert engine.last["messages"][0]["content"] == said
            await Background(gateway).made(prompt={"id": "greet", **version})
            assert engine.last["messages"][0]["content"] == said
        # A file that changes is read again.
        (folder / "greet@11.md").write_text("Greet 11.")
        while "11" not in engine.last["messages"][0]["content"]:
            await gateway.post({"input": "Hi", "model": "mock", "prompt": {"id": "greet"}})


@pytest.mark.parametrize(
    ("prompt", "param", "said"),
    [
        ({"id": "other"}, "prompt.id", "There are: greet, reply"),
        ({}, "prompt.id", "There are: greet, reply"),
        ({"id": "greet", "version": "1"}, "prompt.version", "It has: 10, 9"),
        ({"id": "reply"}, "prompt.variables", "needs a value for: customer"),
        ({"id": "reply", "variables": {"who": "x"}}, "prompt.variables.who", "It has: customer, tone"),
        ({"id": "reply", "variables": {"customer": {"type": "input_image"}}}, "prompt.variables.customer", "only a text"),
        ({"id": "reply", "variables": "x"}, "prompt.variables", "must be an object"),
        ({"id": "reply", "name": "x"}, "prompt.name", "id, variables, version"),
        ({"id": "reply", "x" * 9999: "x"}, f"prompt.{'x' * 100}…", "id, variables, version"),
        ({"id": "reply", "variables": {"x" * 9999: "x"}}, f"prompt.variables.{'x' * 100}…", "It has: customer, tone"),
        ({"id": "../prompts/reply"}, "prompt.id", "There are: greet, reply"),
        ({"id": "reply.md"}, "prompt.id", "There are: greet, reply"),
        ({"id": "greet@9"}, "prompt.id", "There are: greet, reply"),
        ({"id": ["greet"]}, "prompt.id", "There are: greet, reply"),
        ({"id": "greet", "version": 9}, "prompt.version", "It has: 10, 9"),
        ({"id": "greet", "version": "../9"}, "prompt.version", "It has: 10, 9"),
    ],
)
async def test_what_is_wrong_is_named_and_what_there_is_listed(
    prompt: dict[str, Any], param: str, said: str, folder: Path, engine: MockEngine
) -> None:
    async with running_gateway(engine, prompts=str(folder)) as gateway:
        status, answer = await gateway.post({"model": "mock", "input": "Hi", "prompt": prompt})
    assert (status, answer["error"]["param"]) == (400, param)
    assert said in answer["error"]["message"]


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("a b.md", "Hi", "a name has letters"),
        ("a.md", "+++\nmodel = \n+++\nHi", "Invalid value"),
        ("a.md", '+++\ninput = "x"\n+++\nHi', "input must be one of: model"),
        ("a.md", "+++\ntemperature = 9\n+++\nHi", "temperature"),
        ("a.md", '+++\n[variables]\nx = "1"\n+++\nHi', "no variable {{x}}"),
        ("a.md", "+++\n[variables]\nx = 1\n+++\nHi {{x}}", "table of texts"),
        ("a.md", '+++\nmodel = "mock"\nHi', "has no second one"),
        ("a.md", "x" * (LARGEST + 1), "at most 1,048,576 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_at_the_start(name: str, written: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(written)
    with pytest.raises(UnusablePrompt, match=said) as unusable:
        read_folder(tmp_path)
    assert name in str(unusable.value)
    config = tmp_path / "antiphon.toml"
    config.write_text(f'prompts = "{tmp_path}"\n')
    with pytest.raises(SettingsError, match="prompts: "):
        load_settings({}, config)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """A pipe would be waited for, a link may lead nowhere."""
    for make in (lambda file: os.mkfifo(file), lambda file: file.symlink_to("none"), lambda file: file.mkdir()):
        folder = tmp_path / str(uuid4())
        folder.mkdir()
        make(folder / "a.md")
        with pytest.raises(UnusablePrompt, match="is not a file"):
            read_folder(folder)


def test_hidden_files_are_no_prompts_and_a_mark_of_utf_8_is_none_of_the_text(tmp_path: Path) -> None:
    # Of Emacs, while a.md is edited.
    (tmp_path / ".#a.md").symlink_to("ada@host.1234")
    (tmp_path / "a.md").write_text('\ufeff+++\nmodel = "mock"\n+++\nHi {{who}}')
    # A link is as good as a file.
    (tmp_path / "b.md").symlink_to("a.md")
    for id in ("a", "b"):
        request = CreateResponse(prompt={"id": id, "variables": {"who": "{{who}} {{ x }} \\g<0> {% y %}"}})
        read_folder(tmp_path).fill(request)
        assert (request.model, request.instructions) == ("mock", "Hi {{who}} {{ x }} \\g<0> {% y %}")


def test_a_text_that_is_put_in_many_times_may_not_become_too_long(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("{{x}}" * 1000)
    prompts = read_folder(tmp_path)
    prompts.fill(CreateResponse(prompt={"id": "a", "variables": {"x": "y" * (LONGEST // 1000)}}))
    with pytest.raises(InvalidRequest, match="longer than 16,777,216 characters"):
        prompts.fill(CreateResponse(prompt={"id": "a", "variables": {"x": "y" * (LONGEST // 1000 + 1)}}))


async def test_files_that_cannot_be_used_change_nothing_until_they_can(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    used: list[StoredPrompts] = []
    watching = asyncio.create_task(watch_folder(folder, used.append, 0.001))

    async def reaches(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    await reaches(lambda: len(used) == 1)
    (folder / "new.md").symlink_to("none")
    await reaches(lambda: "prompts not read" in caplog.text)
    (folder / "none").write_text("Welcome.")
    await reaches(lambda: len(used) == 2)
    request = CreateResponse(prompt={"id": "new"})
    used[-1].fill(request)
    assert request.instructions == "Welcome."
    assert caplog.text.count("prompts not read") == 1
    # Another file in its place, of the same size and time.
    other, state = folder / "other", (folder / "none").stat()
    other.write_text("Farewell")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(folder / "none")
    await reaches(lambda: len(used) == 3)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
