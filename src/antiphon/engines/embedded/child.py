"""The process that llama.cpp runs in. Its parameters are one line on standard input; when that closes, the process exits.

Standard input is a pipe from the gateway, so the engine never outlives the gateway, however the gateway ended.
"""

import os
import signal
import sys
import threading

import msgspec
from msgspec import Struct

from antiphon.installation import missing_extra

STDIN = 0
READY = "ready"
# Such as libgomp.so.1, which a small system does not have.
NOT_LOADED = "llama.cpp cannot be loaded: {reason}. On Debian and Ubuntu: apt-get install libgomp1"
# llama.cpp's verbosity levels: errors and warnings only; or also what it loads and serves.
QUIET, VERBOSE = 2, 3
# llama.cpp keeps earlier prompts in memory, so that a conversation that continues starts fast. Its own limit of 8 GB is too
# much for a laptop.
PROMPT_CACHE_MIB = 1024


class Parameters(Struct, frozen=True, kw_only=True):
    path: str
    alias: str
    port: int
    key: str
    # Tokens per slot.
    context: int
    slots: int
    gpu_layers: int
    threads: int
    # None: the chat template of the model file.
    template: str | None
    verbose: bool


def main() -> None:
    # Ctrl-C reaches every process of a terminal. The gateway still needs the engine to finish its streams.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(STDIN, "rb", buffering=0, closefd=False) as stdin:
        parameters = msgspec.json.decode(stdin.readline(), type=Parameters)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    server = serve(parameters)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    _keep_running(server)


def no_llamacpp() -> str:
    return missing_extra("the embedded engine", "embedded")


def serve(parameters: Parameters) -> object:
    """Returns once the model is loaded. Until then llama.cpp itself answers requests with 503."""
    try:
        import xllamacpp
    except ModuleNotFoundError:
        sys.exit(no_llamacpp())
    except ImportError as failed:
        sys.exit(NOT_LOADED.format(reason=failed))
    params = xllamacpp.CommonParams()
    params.model.path = parameters.path
    params.model_alias = {parameters.alias}
    params.port = parameters.port
    params.api_keys = [parameters.key]
    # llama.cpp divides its context among the slots.
    params.n_ctx = parameters.context * parameters.slots
    params.n_parallel = parameters.slots
    params.n_gpu_layers = parameters.gpu_layers
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = parameters.threads
    params.use_jinja = True
    if parameters.template is not None:
        params.chat_template = parameters.template
    params.ui = False
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.verbosity = VERBOSE if parameters.verbose else QUIET
    try:
        return xllamacpp.Server(params)
    except RuntimeError as failed:
        # llama.cpp has written the details to standard error.
        sys.exit(str(failed))


def _keep_running(server: object) -> None:
    """The server stops when its object is freed; the argument keeps a reference to it."""
    threading.Event().wait()


def _exit_with_parent() -> None:
    """No other thread runs while a model loads, so a closed pipe is noticed only after that."""
    # Unbuffered: a buffered reader has a lock, and Python would wait for it at exit.
    while os.read(STDIN, 1024):
        pass
    # llama.cpp may be in the middle of an answer, but nobody is left to read it.
    os._exit(0)


if __name__ == "__main__":
    main()
