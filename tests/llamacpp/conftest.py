"""Real llama.cpp: with random weights, and with SmolLM2."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.embedded.gguf_header import read_header
from antiphon.embedded.templates import template_for


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
