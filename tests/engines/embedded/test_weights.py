"""Resolves --model to a file."""

import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from support.model_sources import FILE, REPOSITORY, SourceServer, a_model
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.named_models import BY_NAME
from antiphon.engines.embedded.weights import find_weights
from antiphon.installation import missing_extra
from bench.processes import free_port


async def test_a_file_is_served_under_its_stem(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "Pebble-1B.Q4.gguf", context=512)
    found = await find_weights(str(model), Path())
    assert (found.path, found.alias, found.header.context) == (model, "Pebble-1B.Q4", 512)


async def test_a_named_model_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "models" / "pebble.gguf"
    cached.parent.mkdir()
    data = write_tiny_model(cached).read_bytes()
    monkeypatch.setitem(BY_NAME, "pebble", a_model(data))
    found = await find_weights("pebble", tmp_path / "models")
    assert (found.path, found.alias) == (cached, "pebble")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("smallm", r"there is no model smallm\. Did you mean smollm2\? A model is PATH.gguf, hf:OWNER/NAME/FILE.gguf, or one"),
        ("Qwen2.5-Coder:1.5B", r"Did you mean qwen2\.5-coder-1\.5b or qwen2\.5-coder"),
        ("llama", r"there is no model llama\. A model is .* one of these names: smollm2, qwen2\.5-coder-1\.5b"),
        ("/nowhere/x.gguf", "there is no file /nowhere/x.gguf$"),
        ("x.gguf", f"there is no file x.gguf in {re.escape(str(Path.cwd()))}$"),
        ("/", "there is no model /"),
        (__file__, "is not a GGUF file"),
        ("hf:x.gguf", "is written hf:OWNER/NAME/FILE.gguf, not hf:x.gguf"),
        ("hf:owner/name", "is written hf:OWNER/NAME/FILE.gguf, not hf:owner/name"),
    ],
)
async def test_a_wrong_model_is_an_error(model: str, message: str) -> None:
    with pytest.raises(CannotEmbed, match=message):
        await find_weights(model, Path())


async def test_the_hub_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotEmbed, match=re.escape(missing_extra("a model from the Hugging Face hub", "hf"))):
        await find_weights("hf:owner/name/x.gguf", Path())


def note(reports: list[tuple[str, int, int | None]], what: str, received: int, total: int | None) -> None:
    reports.append((what, received, total))


async def test_a_model_of_the_hub_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    model = f"hf:{REPOSITORY}/{FILE}"
    async with SourceServer(data) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        reports: list[tuple[str, int, int | None]] = []
        found = await find_weights(model, Path(), show=lambda what, step="": nullcontext(partial(note, reports, what)))
        assert found.path.read_bytes() == data
        assert reports[-1] == (FILE, len(data), len(data)), "the library reports how far it is"
        assert found.alias == "pebble-q4"
        with pytest.raises(CannotEmbed, match=rf"hf:{REPOSITORY}/other\.gguf could not be downloaded: .*404"):
            await find_weights(f"hf:{REPOSITORY}/other.gguf", Path())
        for status in (503, 429, 401):
            server.hub_status = status
            assert await find_weights(model, Path()) == found, "if the hub refuses, what is in the library's cache is used"
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert await find_weights(model, Path()) == found, "without the hub, what is in the library's cache is used"
    with pytest.raises(CannotEmbed, match="could not be downloaded: ConnectError"):
        await find_weights(f"hf:{REPOSITORY}/other.gguf", Path())
