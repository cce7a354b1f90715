"""The process that llama.cpp runs in: its parameters come as one line on standard input, and when that closes, it ends.

Standard input is a pipe that the gateway holds, so the engine never outlives the gateway, however that ended.
"""

import os
import signal
import sys
import threading

import msgspec
from msgspec import Struct

STDIN = 0
READY = "ready"
NO_LLAMACPP = "the embedded engine needs the package xllamacpp: pip install 'antiphon[embedded]'"
# What llama.cpp says with this verbosity: errors and warnings; and with more, how it loads and what it serves.
QUIET, TALKATIVE = 2, 3
# Earlier prompts are kept in memory, so that a conversation that comes back is warm. llama.cpp's own bound, 8 GB, is too
# much for a laptop.
KEPT_PROMPTS_MIB = 1024


class Parameters(Struct, frozen=True, kw_only=True):
    path: str
    alias: str
    port: int
    key: str
    # Of one slot, in tokens.
    context: int
    slots: int
    gpu_layers: int
    threads: int
    # None: the model's own.
    template: str | None
    talkative: bool


def main() -> None:
    # Ctrl-C reaches every process of a terminal; the gateway lets its streams finish, and needs the engine for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(STDIN, "rb", buffering=0, closefd=False) as line:
        parameters = msgspec.json.decode(line.readline(), type=Parameters)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _hold(serve(parameters))


def serve(parameters: Parameters) -> object:
    """Returns once the model is loaded; a request that comes before is answered with 503 by llama.cpp itself."""
    try:
        import xllamacpp
    except ImportError:
        sys.exit(NO_LLAMACPP)
    chosen = xllamacpp.CommonParams()
    chosen.model.path = parameters.path
    chosen.model_alias = {parameters.alias}
    chosen.port = parameters.port
    chosen.api_keys = [parameters.key]
    # The context is divided among the slots.
    chosen.n_ctx = parameters.context * parameters.slots
    chosen.n_parallel = parameters.slots
    chosen.n_gpu_layers = parameters.gpu_layers
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = parameters.threads
    chosen.use_jinja = True
    if parameters.template is not None:
        chosen.chat_template = parameters.template
    chosen.ui = False
    chosen.cache_ram_mib = KEPT_PROMPTS_MIB
    chosen.verbosity = TALKATIVE if parameters.talkative else QUIET
    try:
        return xllamacpp.Server(chosen)
    except RuntimeError as failed:
        # llama.cpp has said more on standard error.
        sys.exit(str(failed))


def _hold(server: object) -> None:
    """As long as it is held, it serves."""
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    threading.Event().wait()


def _end_with_parent() -> None:
    """While a model is being loaded no other thread runs: then the end is noticed when it is loaded."""
    # Without a buffer, whose lock Python would miss at its own end.
    while os.read(STDIN, 1024):
        pass
    # llama.cpp may be in the middle of an answer; there is nobody left to hear it.
    os._exit(0)


if __name__ == "__main__":
    main()
