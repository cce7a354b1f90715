"""Resolves --model to a file."""

import hashlib
from pathlib import Path

import pytest
from aiohttp import web
from support.tiny_model import write_tiny_model

from antiphon.embedded import CannotEmbed, weights
from antiphon.embedded.packaged_models import PackagedModel
from antiphon.embedded.weights import find_weights


async def test_a_file_is_served_under_its_stem(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "Pebble-1B.Q4.gguf", context=512)
    found = await find_weights(str(model), Path())
    assert (found.path, found.alias, found.header.context) == (model, "Pebble-1B.Q4", 512)


async def test_a_packaged_model_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "models" / "pebble.gguf"
    cached.parent.mkdir()
    data = write_tiny_model(cached).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(weights.PACKAGED, "pebble", PackagedModel("pebble", "x==1", "x/y.gguf", len(data), digest))
    found = await find_weights("pebble", tmp_path / "models")
    assert (found.path, found.alias) == (cached, "pebble")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("smallm", "there is no model smallm: --model must be one of smollm2, PATH.gguf, hf:"),
        ("/nowhere/x.gguf", "there is no model /nowhere/x.gguf"),
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
    with pytest.raises(CannotEmbed, match=r"pip install 'antiphon\[hf\]'"):
        await find_weights("hf:owner/name/x.gguf", Path())


async def test_a_model_of_the_hub_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()

    async def resolve(request: web.Request) -> web.Response:
        headers = {"ETag": '"abc"', "X-Repo-Commit": "f" * 40}
        return web.Response(body=data, headers=headers)

    app = web.Application()
    app.add_routes([web.get("/owner/name/resolve/main/folder/Pebble.gguf", resolve)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{runner.addresses[0][1]}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    try:
        found = await find_weights("hf:owner/name/folder/Pebble.gguf", Path())
        assert found.path.read_bytes() == data
        assert found.alias == "Pebble"
        with pytest.raises(CannotEmbed, match=r"hf:owner/name/other\.gguf could not be downloaded"):
            await find_weights("hf:owner/name/other.gguf", Path())
    finally:
        await runner.cleanup()
