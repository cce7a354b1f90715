"""Real llama.cpp: with random weights, and with SmolLM2."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.battery_templates import DEMANDING, Subject
from support.gateway import GatewayUnderTest, running_gateway
from support.llamacpp import running_llamacpp
from support.parser_templates import WITH_PARSERS
from support.template_battery import CONTEXT
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an engine whose weights are random."""
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=16384)
    with running_llamacpp(path, context=16384) as url:
        yield url


@pytest.fixture(scope="session")
def smollm2(model_cache: Path) -> Iterator[str]:
    path = model_cache / "models" / "smollm2.gguf"
    with running_llamacpp(path, template=template_for(read_header(path)), context=8192, threads=2) as url:
        yield url


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=CONTEXT)


TEMPLATES = DEMANDING | WITH_PARSERS
# Those of families of models, and those that no family of ours stands for. The others make one demand each.
SAMPLE = {name for name in TEMPLATES if name.startswith("like ")} | {"bare alternation", "own efforts"}


@pytest.fixture(
    scope="module",
    params=[name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in TEMPLATES],
)
def subject(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[Subject]:
    """An engine with one of our demanding templates."""
    template = TEMPLATES[request.param]
    # Without flash attention: for a tiny model with a long history it takes three times as long.
    with running_llamacpp(tiny_model, template=template.text, context=CONTEXT, flash_attn_type=0) as url:
        yield Subject(request.param, template, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def probed(subject: Subject) -> AsyncIterator[GatewayUnderTest]:
    """One gateway for all tests: what it has learned of the template counts for each."""
    async with running_gateway(subject.url, probe=True) as gateway:
        await gateway.probed()
        yield gateway
