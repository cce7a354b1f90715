"""Which event loop the processes of a gateway use."""

import asyncio


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The faster one, where it is installed. There is none for Windows."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
