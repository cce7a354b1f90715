"""The shape of the source tree and what a request costs, as one table with targets: `python -m shape --help`.

Nothing here imports a module of Antiphon. The sources are read as text, and the gateway is started as its command, so the same
figures can be taken of any checkout: `--tree`.
"""
