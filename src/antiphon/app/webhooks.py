"""Webhooks, as the settings have them."""

import re
from collections.abc import Collection

from antiphon import __version__
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.webhooks.messages import EVENTS, Endpoint, secret_to_key
from antiphon.gateway.webhooks.sender import WebhookSender
from antiphon.settings.errors import SettingsError, did_you_mean
from antiphon.settings.groups import check_hosts, fill_variables
from antiphon.settings.keys import is_loopback
from antiphon.settings.settings import Settings
from antiphon.settings.tables import WebhookEndpointSettings, WebhookSettings
from antiphon.tools.addresses import AddressPolicy, url_complaint

# It is a part of the ids of its messages, which are sent in a header.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def webhook_endpoints(given: WebhookSettings) -> list[Endpoint]:
    """Raises SettingsError."""
    return [_endpoint(f"webhooks.endpoints.{name}", name, each) for name, each in given.endpoints.items()]


def _endpoint(place: str, name: str, given: WebhookEndpointSettings) -> Endpoint:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"webhooks.endpoints: {name!r} is not a name. Use 1 to 64 letters, digits, - and _")
    for event in given.events:
        if event not in EVENTS:
            hint = did_you_mean(event, EVENTS)
            raise SettingsError(f"{place}.events: {event!r} must be one of: {', '.join(EVENTS)}.{hint}")
    secret = fill_variables(f"{place}.secret", given.secret)
    try:
        key = secret_to_key(secret)
    except ValueError:
        raise SettingsError(f"{place}.secret: after whsec_ there must be base64") from None
    if not key:
        raise SettingsError(f"{place} needs a secret, by which its messages are signed")
    return Endpoint(name, fill_variables(f"{place}.url", given.url), key, given.events, given.keys)


def check_webhooks(settings: Settings) -> None:
    """Raises SettingsError."""
    check_hosts("webhooks.hosts", settings.webhooks.hosts)
    policy = webhook_policy(settings, ())
    for endpoint in webhook_endpoints(settings.webhooks):
        if (complaint := url_complaint(policy, endpoint.url)) is not None:
            raise SettingsError(f"webhooks.endpoints.{endpoint.name}.url: {complaint}")


def webhook_policy(settings: Settings, own: Collection[tuple[str, int]]) -> AddressPolicy:
    given = settings.webhooks
    loopback = is_loopback(settings.host)
    return AddressPolicy(given.urls, given.hosts, loopback=loopback, own=own, https=given.urls == "public")


def make_sender(settings: Settings, gateway: Gateway, own: Collection[tuple[str, int]]) -> WebhookSender:
    store, endpoints, policy = gateway.store.accounts, gateway.webhooks.endpoints, webhook_policy(settings, own)
    agent = f"antiphon/{__version__}"
    return WebhookSender(store, endpoints, policy, patience=settings.webhooks.timeout, agent=agent)
