"""Real llama.cpp with a tiny model of random weights."""

from collections.abc import Iterator

import pytest
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an engine that serves the model `tiny`."""
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=16384)
    with running_llamacpp(path, context=16384, slots=2) as url:
        yield url
