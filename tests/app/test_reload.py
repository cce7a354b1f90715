"""New settings for a running gateway, in order."""

import re
from importlib.util import find_spec

import pytest
from aiohttp import web
from msgspec import structs
from support.engine import MockEngine
from support.gateway import DEFAULTS, running_gateway

from antiphon.app import checked_settings, reload
from antiphon.installation import missing_extra
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings


async def test_what_could_not_be_applied_is_tried_again_at_the_next_reload(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []

    async def once_broken(running: web.Application, old: Settings, new: Settings) -> None:
        applied.append(new.log_level)
        if len(applied) == 1:
            raise RuntimeError("broken")

    broken = reload.Part(frozenset({"log_level"}), once_broken)
    monkeypatch.setattr(reload, "PARTS", (*(part for part in reload.PARTS if "log_level" not in part.names), broken))
    async with running_gateway(engine) as gateway:
        settings = Settings(upstream=(engine.url,), port=0, **DEFAULTS)
        new = structs.replace(settings, log_level="warning", key_responses=5)
        with pytest.raises(RuntimeError, match="broken"):
            await gateway.reload(new)
        # What was applied before stays, and is not done again.
        assert gateway.gateway.admission.owners.limits.responses == 5
        await gateway.reload(new)
        await gateway.reload(new)
        assert applied == ["warning", "warning"]


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"])
def test_traces_without_opentelemetry_are_refused_with_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(SettingsError, match=re.escape(missing_extra("otel", "otel"))):
        checked_settings.load_settings({"otel": True}, None)
    assert not checked_settings.load_settings({}, None).otel
