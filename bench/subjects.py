"""What is measured: nginx and Antiphon in front of the same engine, and the routes they are asked by."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import free_port, running

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream engine {{ server 127.0.0.1:{engine}; keepalive 512; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    pid: int
    port: int
    api: str


def find_nginx() -> str | None:
    """Debian puts it where only root's PATH looks."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@contextlib.contextmanager
def started(nginx: str, interval_ms: int, folder: Path) -> Iterator[tuple[int, list[Subject]]]:
    """The engine's pid and the subjects, in the order in which they are loaded."""
    engine, front, gateway = free_port(), free_port(), free_port()
    conf = folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=folder, engine=engine, port=front))
    antiphon = str(Path(sys.executable).with_name("antiphon"))
    upstream = f"http://127.0.0.1:{engine}"
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str], port: int, ready: str = "/v1/models") -> int:
            return stack.enter_context(running(name, command, port, ready, folder))

        engine_pid = start("engine", [sys.executable, "-m", "bench.engine", str(engine), str(interval_ms)], engine)
        # -e: without it nginx would first open the log of the system's configuration.
        nginx_pid = start("nginx", [nginx, "-e", f"{folder}/nginx-error.log", "-p", str(folder), "-c", str(conf)], front)
        (folder / "antiphon.toml").write_text('log_level = "warning"\nprobe = false\n')
        settings = ["--config", f"{folder}/antiphon.toml", "--upstream", upstream, "--port", str(gateway)]
        antiphon_pid = start("antiphon", [antiphon, "serve", *settings], gateway, "/ready")
        subjects = [
            Subject("nginx", nginx_pid, front, "chat"),
            Subject("antiphon", antiphon_pid, gateway, "responses"),
            Subject("antiphon pass-through", antiphon_pid, gateway, "chat"),
        ]
        yield engine_pid, subjects
