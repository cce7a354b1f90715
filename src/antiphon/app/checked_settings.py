"""The settings, with what they name checked too.

Only what is set is checked, and only then are the modules imported that know how: every command reads the settings, and with
all of the gateway each would take half a second.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.installation import missing_extra
from antiphon.settings.errors import SettingsError, did_you_mean
from antiphon.settings.groups import check_hosts
from antiphon.settings.keys import key_owners, metrics_readers
from antiphon.settings.settings import Settings, read_chat_template
from antiphon.settings.sources import load
from antiphon.settings.tables import McpSettings, ToolSettings, VectorStoreSettings, WebhookSettings


def load_settings(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """For a gateway. Raises SettingsError."""
    chosen = load_without_prompts(flags, file)
    _check_prompts(chosen)
    return chosen


def load_without_prompts(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """For what is no gateway: people edit the files of prompts while it serves. Raises SettingsError."""
    chosen = load(flags, file=file)
    read_chat_template(chosen)
    key_owners(chosen)
    metrics_readers(chosen)
    for key in sorted({*chosen.chat_pass_keys} - chosen.keys.keys()):
        raise SettingsError(f"chat_pass_keys: there is no key {key} in keys.{did_you_mean(key, chosen.keys)}")
    check_hosts("fetch_hosts", chosen.fetch_hosts)
    _check_tables(chosen)
    _check_webhooks(chosen)
    if chosen.otel and not _has_opentelemetry():
        raise SettingsError(missing_extra("otel", "otel"))
    if chosen.dialect is not None and chosen.dialect not in BY_NAME:
        raise SettingsError(f"unknown dialect {chosen.dialect!r}. It must be one of: {', '.join(BY_NAME)}")
    return chosen


def _check_tables(chosen: Settings) -> None:
    if chosen.mcp != McpSettings():
        from antiphon.app.mcp_servers import check_mcp

        check_mcp(chosen)
    if chosen.tools != ToolSettings():
        from antiphon.app.hosted_tools import check_tools

        check_tools(chosen)
    if chosen.vector_stores != VectorStoreSettings():
        from antiphon.app.retrieval import check_embeddings

        check_embeddings(chosen.vector_stores)


def _check_webhooks(chosen: Settings) -> None:
    if chosen.webhooks != WebhookSettings():
        from antiphon.app.webhooks import check_webhooks

        check_webhooks(chosen)


def _check_prompts(chosen: Settings) -> None:
    if chosen.prompts is not None:
        from antiphon.gateway.stored_prompts.folder import UnusablePrompt, read_folder

        try:
            read_folder(Path(chosen.prompts))
        except UnusablePrompt as unusable:
            raise SettingsError(f"prompts: {unusable}") from None


def _has_opentelemetry() -> bool:
    try:
        needed = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
        return all(importlib.util.find_spec(name) is not None for name in needed)
    except ModuleNotFoundError:
        return False
