"""Run as a script: a gateway with one model, or a Codex, that waits to be stopped. Its name and pid go to the pipe PIDS."""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

MODELS = b'{"data": [{"id": "idle"}]}'


class Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(MODELS)))
        self.end_headers()
        self.wfile.write(MODELS)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(name: str, *arguments: str) -> None:
    with Path(os.environ["PIDS"]).open("a") as pids:
        pids.write(f"{name} {os.getpid()}\n")
    if name == "serve":
        server = HTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Models)
        # What a gateway prints when it listens, and when its engine was examined.
        sys.stdout.write(f"Antiphon is ready at http://127.0.0.1:{server.server_port}/v1\n  an engine\n")
        sys.stdout.flush()
        server.serve_forever()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
