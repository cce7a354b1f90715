"""What a command imports: what it does not use costs memory and time at each start."""

import asyncio
import re
import signal
import subprocess
import sys

import aiohttp
import pytest
from support.commands import bare_environment
from support.engine import DONE, MockEngine, chunk

from antiphon.patterns import POSSESSIVE_GROUPS_WORK

# Only for some commands, or for what some requests ask for.
HEAVY = set("aiohttp asyncio cryptography jsonschema_rs lark prometheus_client pydantic regex rich uvloop".split())


def imported(program: str) -> set[str]:
    source = f"import sys\ntry:\n    {program}\nfinally:\n    print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=bare_environment())
    return set(ran.stdout.split("\n")[-2].split())


def test_the_version_is_shown_without_the_server() -> None:
    assert imported("from antiphon.cli.commands import app; app(['--version'])") & HEAVY == set()


def test_options_and_settings_are_read_without_the_server() -> None:
    assert imported("from antiphon.cli.commands import app; app(['key', 'new', 'somebody', '--hashed'])") & HEAVY == set()


# Of the modules of a gateway: what clients connect to, and what answers them.
GATEWAY = {"antiphon.app.options", "antiphon.app.lifetime", "antiphon.server", "antiphon.engines.pool"}
# A gateway at this address never answers.
NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["claude", "--url", NOWHERE],
        ["codex", "--url", NOWHERE],
        ["restart", "--url", NOWHERE],
        ["usage", "--url", NOWHERE],
        ["key", "list", "--store", "sqlite:/nowhere/responses.db"],
        ["models"],
        ["pull", "nosuch"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_is_no_gateway_starts_without_its_modules(arguments: list[str]) -> None:
    modules = imported(f"from antiphon.cli.commands import app; app({arguments})")
    assert "antiphon.app.checked_settings" in modules
    assert modules & GATEWAY == set()


# What a gateway uses for some requests only, or never. Older versions of Python need regex from the start.
UNUSED = set(
    "asyncpg cryptography huggingface_hub jsonschema_rs lark mcp numpy prometheus_client pydantic pypdf trafilatura "
    "antiphon.core.protocols.chat.read antiphon.core.protocols.messages.read".split()
) | ({"regex"} if POSSESSIVE_GROUPS_WORK else set())


def test_a_gateway_starts_without_what_few_requests_need() -> None:
    assert imported("import antiphon.cli.serve, antiphon.transport.fast") & UNUSED == set()


def test_one_process_starts_without_what_supervises_several_and_without_the_embedded_engine() -> None:
    # It does not start: everybody could use it. By then, all is imported that it starts with.
    modules = imported(
        "from antiphon.cli.commands import app; app(['serve', '--host', '0.0.0.0', '--upstream', 'http://127.0.0.1:9'])"
    )
    assert "antiphon.app.app" in modules
    assert (
        modules
        & {"antiphon.app.processes.supervisor", "antiphon.engines.embedded.process", "antiphon.engines.embedded.weights"}
        == set()
    )


async def test_the_first_answer_is_given_without_what_few_requests_need(engine: MockEngine) -> None:
    # What is imported beyond the imports of the modules: while the gateway is put together, and with the first request.
    engine.will(chunk({"content": "Hello"}, finish="stop") + DONE)
    source = "import sys\nfrom antiphon.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, "serve", "--upstream", engine.url, "--port", "0",
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=bare_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as client:
            found = re.search(r"http://\S+/v1", (await process.stdout.readline()).decode())
            assert found is not None
            async with client.post(f"{found[0]}/responses", json={"model": "mock", "input": "Hi"}) as answer:
                assert (await answer.json())["status"] == "completed"
            process.send_signal(signal.SIGTERM)
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    modules = set(printed.decode().split("\n")[-2].split())
    assert "antiphon.app.app" in modules
    assert modules & UNUSED == set()
