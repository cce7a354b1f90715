"""A WebSocket to the gateway whose every byte the test writes itself."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from support.gateway import GatewayUnderTest

UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@contextmanager
def raw_socket(gateway: GatewayUnderTest, receive_buffer: int = 1 << 20) -> Iterator[socket.socket]:
    """A connection that asks for a WebSocket, and does nothing by itself."""
    host = gateway.url.removeprefix("http://")
    address, _, port = host.partition(":")
    with socket.socket() as client:
        client.settimeout(20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect((address, int(port)))
        client.sendall(UPGRADE % host.encode())
        yield client


def frame(first: int, payload: bytes) -> bytes:
    """As a client sends it: masked, here with zeros."""
    return bytes((first, 0xFF)) + len(payload).to_bytes(8, "big") + bytes(4) + payload


def read_all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(4096):
        received += data
    return received
