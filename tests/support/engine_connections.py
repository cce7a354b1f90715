"""The connections of a gateway to an engine, on either transport."""

from antiphon.engines.upstream import Engine
from antiphon.transport.fast.client import FastEndpoint


def kept_connections(engine: Engine) -> int:
    """Those that wait for the next chat request."""
    if isinstance(engine._chat, FastEndpoint):
        return len(engine._chat._idle)
    assert engine._session.connector is not None
    return sum(len(kept) for kept in engine._session.connector._conns.values())


def is_paused(engine: Engine) -> bool:
    """Whether the gateway has stopped reading what the engine sends."""
    if isinstance(engine._chat, FastEndpoint):
        return any(not connection.transport.is_reading() for connection in engine._chat._open)
    assert engine._session.connector is not None
    return any(connection._reading_paused for connection in engine._session.connector._acquired)
