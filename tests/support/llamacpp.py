"""Real llama.cpp, in a process of its own that ends with the test, however the test ends.

Run as a script this module is that process: it serves until its standard input is closed.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def running_llamacpp(
    model_path: Path,
    *,
    template: str | None = None,
    reasoning_format: str = "deepseek",
    context: int = 4096,
    slots: int = 2,
    alias: str | None = None,
    threads: int = 1,
    port: int = 0,
    **others: Any,
) -> Iterator[str]:
    """The URL of a llama.cpp that serves this model, ready when it is given.

    `context` is that of one slot; `reasoning_format` is none, auto, deepseek or deepseek-legacy; `others` are set on
    xllamacpp's CommonParams as they are.
    """
    values = {
        "n_ctx": context * slots,
        "n_parallel": slots,
        "port": port,
        "verbosity": 0,
        "warmup": False,
        **({"chat_template": template} if template is not None else {}),
        **others,
    }
    asked = {
        "path": str(model_path),
        "alias": alias or model_path.stem,
        "reasoning_format": reasoning_format,
        "threads": threads,
        "values": values,
    }
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(asked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(b"http://"):
                yield line.decode().strip()
                break
        else:
            raise RuntimeError(f"llama.cpp did not start with {asked}; it ended with {process.wait()}")
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def _serve(asked: dict[str, Any]) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["path"]
    params.model_alias = {asked["alias"]}
    # One, for a tiny model: several wait for one another, and that takes very long on a busy machine.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    format_name = "COMMON_REASONING_FORMAT_" + asked["reasoning_format"].upper().replace("-", "_")
    params.reasoning_format = xllamacpp.common_reasoning_format[format_name]
    for name, value in asked["values"].items():
        if not hasattr(params, name):
            raise SystemExit(f"llama.cpp has no parameter {name}")
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # The engine's threads may be in the middle of an answer; they have nothing to save.
    os._exit(0)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
