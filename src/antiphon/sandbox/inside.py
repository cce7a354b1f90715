"""What runs in a sandbox: one Python that keeps its variables, like a notebook.

It uses the standard library and nothing of ours, which is not there. What it prints goes to its standard output, which the
gateway reads. Commands come over a socket, each as its size and JSON; answers go back over it, each with the token of its
command. Code that runs here may write to that socket too: it can spoil the answer to its own command, and does not know the
tokens of later ones.
"""

import ast
import builtins
import contextlib
import importlib.util
import inspect
import io
import json
import linecache
import os
import queue
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
from typing import Any

READY, IMAGE, DONE, SHELL = b"R", b"I", b"D", b"S"
STOCK = ("numpy", "pandas", "matplotlib")
DATA = "/mnt/data"
# Settings of notebooks that mean nothing here.
IGNORED_MAGICS = ("%matplotlib", "%config", "%load_ext", "%autoreload", "%precision")
# How often a command is looked at whose children keep its output open, in seconds.
LOOK_AGAIN = 0.02


class Gateway:
    """The connection to it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.running: str | None = None
        # Whether an interrupt may end what is being done. In the middle of an answer it would spoil the next one.
        self.interruptible = False

    def listen(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def commands(self) -> Any:
        while True:
            yield self._commands.get()

    def answer(self, kind: bytes, body: bytes = b"") -> None:
        before, self.interruptible = self.interruptible, False
        head = (self.running or "").encode().ljust(16, b" ")[:16] + kind + struct.pack(">I", len(body))
        self._connection.sendall(head + body)
        self.interruptible = before

    def interrupt(self, *arguments: Any) -> None:
        if self.interruptible:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        try:
            while (head := self._read(4)) is not None and (body := self._read(struct.unpack(">I", head)[0])) is not None:
                command = json.loads(body)
                if command["do"] != "interrupt":
                    self._commands.put(command)
                elif command["token"] == self.running:
                    os.kill(os.getpid(), signal.SIGINT)
        finally:
            os._exit(0)  # the gateway is gone, or the code has closed the connection

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            if not (piece := self._connection.recv(size - len(data))):
                return None
            data += piece
        return bytes(data)


class Notebook:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._process = os.getpid()
        self._cells = 0
        self._images = 0
        self._most_images = 0
        self._user = types.ModuleType("__main__")
        self._user.__dict__.update(__builtins__=builtins, _notebook_line=run_line)
        sys.modules["__main__"] = self._user
        # The output as it was given to us, for code that closes or replaces it.
        self._output = os.dup(1)

    def run(self, source: str, most_images: int) -> bool:
        """Whether it ended without an error."""
        self._images, self._most_images = 0, most_images
        self._take_output()
        signal.signal(signal.SIGINT, self._gateway.interrupt)
        worked = False
        try:
            self._gateway.interruptible = True
            worked = self._run(source)
            self.show_figures()
            self._gateway.interruptible = False
        except BaseException:
            self._gateway.interruptible = False
            # Code may break anything that it can reach, also what shows its figures.
            worked = False
            with contextlib.suppress(BaseException):
                traceback.print_exc()
        if os.getpid() != self._process:
            os._exit(0)  # the code has forked, and this is the copy
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        return worked

    def _take_output(self) -> None:
        for number in (1, 2):
            os.dup2(self._output, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "replace", write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace", write_through=True)

    def _run(self, source: str) -> bool:
        self._cells += 1
        name = f"<cell {self._cells}>"
        try:
            tree, source = read_cell(source, name)
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            self._execute(compile_cell(tree, name))
            if isinstance(last, ast.Expr):
                value = self._execute(compile_cell(ast.Expression(last.value), name))
                if not source.rstrip().endswith(";"):
                    self._show(value)
        except SystemExit as ended:
            if ended.code not in (None, 0):
                print(f"SystemExit: {ended.code}", file=sys.stderr)
        except BaseException as failed:
            sys.stderr.write("".join(without_own_frames(traceback.TracebackException.from_exception(failed)).format()))
            return False
        return True

    def _execute(self, code: types.CodeType) -> Any:
        value = eval(code, self._user.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio

            return asyncio.run(value)
        return value

    def _show(self, value: Any) -> None:
        if value is None:
            return
        self._user.__dict__["_"] = value
        drawn = self._drawn(value)
        if drawn is not None:
            self.image(drawn)
        else:
            print(repr(value))

    def _drawn(self, value: Any) -> bytes | None:
        """The value as PNG, if it is a picture that pyplot does not show anyway."""
        with contextlib.suppress(Exception):
            if hasattr(value, "_repr_png_") and isinstance(png := value._repr_png_(), bytes):
                return png
        figures = sys.modules.get("matplotlib.figure")
        if figures is None or not isinstance(value, figures.Figure):
            return None
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and pyplot.fignum_exists(getattr(value, "number", -1)):
            return None
        return as_png(value)

    def image(self, png: bytes) -> None:
        self._images += 1
        if self._images <= self._most_images:
            self._gateway.answer(IMAGE, png)
        elif self._images == self._most_images + 1:
            print(f"[Only the first {self._most_images} images are shown.]")

    def show_figures(self, *arguments: Any, **options: Any) -> None:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.get_axes() or figure.texts or figure.images:
                self.image(as_png(figure))
        pyplot.close("all")


def as_png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def read_cell(source: str, name: str) -> tuple[ast.Module, str]:
    try:
        return ast.parse(source, name), source
    except SyntaxError:
        # Only then, for such a line may stand in a text.
        translated = without_magics(source)
        if translated == source:
            raise
    return ast.parse(translated, name), translated


def compile_cell(tree: Any, name: str) -> types.CodeType:
    mode = "eval" if isinstance(tree, ast.Expression) else "exec"
    code: types.CodeType = compile(tree, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def without_magics(source: str) -> str:
    first, _, rest = source.lstrip().partition("\n")
    if first.strip() in ("%%bash", "%%sh"):
        return f"_notebook_line({'!' + rest!r})\n"
    return "\n".join(_without_magic(line) for line in source.split("\n"))


def _without_magic(line: str) -> str:
    bare = line.lstrip()
    if not bare.startswith(("!", "%")):
        return line
    return f"{line[: len(line) - len(bare)]}_notebook_line({bare!r})"


def run_line(line: str) -> None:
    """A line that is a notebook's and not Python's: `!command`, `%pip`."""
    words = line.lstrip("!%").split()
    if words[:2] == ["pip", "install"] or words[:1] == ["conda"]:
        there = ", ".join(name for name in STOCK if importlib.util.find_spec(name)) or "only the standard library"
        print(f"Packages cannot be installed here: there is no network. Available: {there}.")
    elif line.startswith("!"):
        sys.stdout.flush()
        subprocess.run(["/bin/sh", "-c", line[1:]], stdin=subprocess.DEVNULL)
    elif not line.startswith(IGNORED_MAGICS):
        print(f"{line.split()[0]} is not available here. Write Python, or a command after `!`.")


def without_own_frames(shown: traceback.TracebackException) -> traceback.TracebackException:
    found: traceback.TracebackException | None = shown
    while found is not None:
        found.stack = traceback.StackSummary.from_list([frame for frame in found.stack if frame.filename != __file__])
        found = found.__cause__ or found.__context__
    return shown


def no_input(prompt: object = "") -> str:
    raise RuntimeError("input() is not available: nobody can answer. Write the value into the code.")


class Capture:
    """The beginning of what a command writes to one of its outputs. The rest is read, and left out."""

    def __init__(self, stream: Any, most: int) -> None:
        self.stream = stream
        self._most = most
        self._data = bytearray()
        self._left_out = 0

    def read(self) -> bool:
        """Whether there may be more."""
        piece = os.read(self.stream.fileno(), 65536)
        kept = piece[: max(0, self._most - len(self._data))]
        self._data += kept
        self._left_out += len(piece) - len(kept)
        return bool(piece)

    def text(self) -> str:
        text = self._data.decode("utf-8", "replace")
        return f"{text}\n[{self._left_out} more bytes are left out.]" if self._left_out else text


def run_shell(command: str, seconds: float, most_output: int) -> dict[str, Any]:
    ends = time.monotonic() + seconds
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=DATA,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    captures = [Capture(process.stdout, most_output), Capture(process.stderr, most_output)]
    timed_out = not read_all(process, captures, ends)
    if timed_out:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for capture in captures:
        capture.stream.close()
    stdout, stderr = (capture.text() for capture in captures)
    return {"stdout": stdout, "stderr": stderr, "exit_code": None if timed_out else process.returncode}


def read_all(process: Any, captures: list[Capture], ends: float) -> bool:
    """Reads until the command has ended; what it left running may keep its output open. Whether it ended in time."""
    with selectors.DefaultSelector() as selector:
        for capture in captures:
            selector.register(capture.stream, selectors.EVENT_READ, capture)
        while time.monotonic() < ends:
            ended = process.poll() is not None
            ready = selector.select(0 if ended else LOOK_AGAIN)
            for key, _ in ready:
                if not key.data.read():
                    selector.unregister(key.fileobj)
            if ended and not ready:
                return True
            if not selector.get_map() and not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, ends - time.monotonic()))
    return process.poll() is not None


def main() -> None:
    import logging

    # "Building the font cache" is of no use to a model.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    sys.modules["_notebook"] = sys.modules["__main__"]
    connection = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    sys.argv = [""]
    os.chdir(DATA)  # the folder is its user's, so only the user may enter it
    sys.path[0] = ""  # the folder that it is in, not that of this file
    builtins.input = no_input
    gateway = Gateway(connection)
    notebook = Notebook(gateway)
    globals()["show_figures"] = notebook.show_figures
    signal.signal(signal.SIGINT, gateway.interrupt)
    gateway.listen()
    gateway.answer(READY)
    for command in gateway.commands():
        gateway.running = command["token"]
        if command["do"] == "run":
            worked = notebook.run(command["code"], command["images"])
            gateway.answer(DONE, b"1" if worked else b"0")
        else:
            outcome = run_shell(command["command"], command["seconds"], command["most_output"])
            gateway.answer(SHELL, json.dumps(outcome).encode())
        gateway.running = None


if __name__ == "__main__":
    main()
