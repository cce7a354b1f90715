"""Engine bodies pushed from their sockets, and events written straight to the sockets, without a task that wakes for each."""

from antiphon.transport.fast.client import FastConnector, open_endpoint
from antiphon.transport.fast.direct import DirectServer
from antiphon.transport.fast.server import open_events, open_messages
from antiphon.transport.interfaces import Transport

FAST = Transport("fast", FastConnector, open_endpoint, open_events, open_messages, DirectServer)
FastConnector.transport = FAST
