"""An MCP server with tools that make images: over HTTP, or over stdio as `python image_mcp_server.py`."""

import base64
import struct
import zlib
from typing import Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent, TextContent


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 3, height: int = 2, more: int = 0) -> bytes:
    """A grey image. `more`: bytes that mean nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"teXt", bytes(more)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _image(data: bytes) -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type="image/png")


def draw(description: str) -> Any:
    """Draws whatever is described."""
    match description:
        case "fail":
            raise ValueError("no paint")
        case "words":
            return [TextContent(type="text", text="I am a poet.")]
        case "nothing":
            return []
        case "resource":
            blob = base64.b64encode(png()).decode()
            contents = BlobResourceContents(uri="file:///a.png", mime_type="image/png", blob=blob)
            return [EmbeddedResource(type="resource", resource=contents)]
        case "large":
            return [_image(png(more=2_500_000))]
        case "huge":
            return [_image(png(more=4_000_000))]
    return [TextContent(type="text", text="Seed 42."), _image(png()), _image(png(9, 9))]


def paint(prompt: str, size: str = "1x1", quality: Literal["low", "high"] = "low", output_compression: str = "") -> Any:
    """Paints in a size."""
    width, height = map(int, size.split("x"))
    return [TextContent(type="text", text=quality), _image(png(width, height))]


def make_server() -> MCPServer:
    server = MCPServer("images", log_level="CRITICAL")
    for tool in (draw, paint):
        server.tool()(tool)
    return server


if __name__ == "__main__":
    make_server().run()
