"""A session of Claude Code on real llama.cpp: what it sends again and again is read once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sessions.cached import BILLINGS, EACH_REQUEST, Prompt, another_session, of_turns, play, share
from sessions.session import read
from support.gateway import running_gateway
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for

# The shares of Claude Code's own texts that are filled in. A token is a letter here, so prompts are long as they are.
SHORT, LONG, CONTEXT = 0.25, 0.5, 49152


def each_prompt_goes_on(prompts: Sequence[Prompt]) -> bool:
    """All that the last prompt of the conversation had is found in the cache."""
    last: dict[tuple[int, int], int] = {}
    for prompt in prompts:
        if prompt.cached < last.get(prompt.request.conversation, 0):
            return False
        last[prompt.request.conversation] = prompt.length
    return True


@asynccontextmanager
async def llamacpp(folder: Path) -> AsyncIterator[str]:
    path = write_tiny_model(folder / "tiny.gguf", context=CONTEXT)
    with running_llamacpp(path, template=template_for(read_header(path)), context=CONTEXT) as engine:
        yield engine


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[str]:
    async with llamacpp(folder) as engine, running_gateway(engine, probe=True) as started:
        await started.probed()
        yield started.url


async def test_most_of_each_prompt_is_in_the_cache_and_of_another_sessions_too(tmp_path: Path) -> None:
    async with gateway(tmp_path) as url:
        prompts = await play(url, read(share=SHORT), BILLINGS[EACH_REQUEST])
    assert share(of_turns(prompts)) >= 0.95
    assert each_prompt_goes_on(prompts)
    assert share([another_session(prompts)]) >= 0.95


@pytest.mark.slow
async def test_llamacpps_own_endpoint_reads_the_prompt_of_another_session_anew(tmp_path: Path) -> None:
    """As docs/claude_code.md says."""
    async with llamacpp(tmp_path) as url:
        own = await play(url, read(share=LONG))
    async with gateway(tmp_path) as url:
        ours = await play(url, read(share=LONG))
    assert share(of_turns(own)) >= 0.95
    assert share(of_turns(ours)) >= 0.95
    assert share([another_session(own)]) < 0.05
    assert share([another_session(ours)]) >= 0.99
