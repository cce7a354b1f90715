"""The only package that uses aiohttp internals: pushed bodies of engines, and events straight to a client's socket."""
