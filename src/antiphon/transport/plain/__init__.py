"""The same by aiohttp's public API only: engine bodies pulled by a task, and events sent by one."""

from antiphon.transport.connections import EngineConnector, wrap_server
from antiphon.transport.interfaces import Transport
from antiphon.transport.plain.client import open_endpoint
from antiphon.transport.plain.server import open_events, open_messages

PLAIN = Transport("plain", EngineConnector, open_endpoint, open_events, open_messages, wrap_server)
