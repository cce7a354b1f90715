"""Engine bodies pushed from the parser, and events written straight to the sockets, without a task that wakes for each."""

from antiphon.transport.fast.client import PushedBody, PushingConnector
from antiphon.transport.fast.server import open_events, open_messages
from antiphon.transport.interfaces import Transport

FAST = Transport("fast", PushingConnector, PushedBody, open_events, open_messages)
PushingConnector.transport = FAST
