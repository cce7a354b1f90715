"""Several gateways on one Postgres, behind nginx, before one mock engine. Each can be killed, and starts again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from bench.processes import BenchFailed, free_port, running
from bench.subjects import NO_NGINX, find_nginx

READY_WITHIN = 90.0
NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream gateways {{
{servers}
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_buffering off;
            proxy_read_timeout 300;
        }}
    }}
}}
"""
CONF = """\
log_level = "warning"
probe = false
seal_key = "soak"
inspector = false
background_workers = {workers}
background_lease = {lease}
background_attempts = 10

[containers]
enabled = false
"""


class Gateway:
    """One process that is started again after it was killed."""

    def __init__(self, number: int, folder: Path, store: str, engine: int) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"gateway-{number}.log"
        words = ["--config", str(folder / "antiphon.toml"), "--upstream", f"http://127.0.0.1:{engine}"]
        self._command = [sys.executable, "-m", "antiphon", "serve", *words, "--port", str(self.port), "--store", store]
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
        self._environment |= {"XDG_DATA_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    @property
    def pid(self) -> int | None:
        """Of its process, and of the group of all that it starts."""
        return None if self._child is None else self._child.pid

    def stop(self, number: signal.Signals) -> None:
        """Also its helpers, which have its group."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            self._child.wait(60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        until = time.monotonic() + READY_WITHIN
        while time.monotonic() < until:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with session.get(self.url + "/ready") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
        raise BenchFailed(f"a gateway did not become ready:\n{self._log.read_text(errors='replace')[-2000:]}")

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")


class Fleet:
    def __init__(self, gateways: list[Gateway], port: int, session: aiohttp.ClientSession) -> None:
        self.gateways = gateways
        self.url = f"http://127.0.0.1:{port}"
        self.session = session
        # When each kill was, by the loop's clock.
        self.kills: list[float] = []

    async def kill_one(self) -> None:
        """The next one in turn, without a warning; then it is started again."""
        gateway = self.gateways[len(self.kills) % len(self.gateways)]
        self.kills.append(asyncio.get_running_loop().time())
        await asyncio.to_thread(gateway.stop, signal.SIGKILL)
        gateway.start()
        await gateway.ready(self.session)


@contextlib.asynccontextmanager
async def fleet(count: int, store: str, folder: Path, *, interval_ms: int, workers: int, lease: float) -> AsyncIterator[Fleet]:
    """`workers` and `lease`: of each gateway's background responses."""
    nginx = find_nginx()
    if nginx is None:
        raise BenchFailed(NO_NGINX)
    engine, front = free_port(), free_port()
    (folder / "antiphon.toml").write_text(CONF.format(workers=workers, lease=lease))
    gateways = [Gateway(number, folder, store, engine) for number in range(count)]
    servers = "\n".join(f"        server 127.0.0.1:{each.port} max_fails=1 fail_timeout=1s;" for each in gateways)
    conf = folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=folder, servers=servers, port=front))
    paced = [sys.executable, "-m", "soak.engine", str(engine), str(interval_ms)]
    proxy = [nginx, "-e", f"{folder}/nginx-error.log", "-p", str(folder), "-c", str(conf)]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        with running("engine", paced, engine, "/v1/models", folder):
            try:
                for gateway in gateways:
                    gateway.start()
                for gateway in gateways:
                    await gateway.ready(session)
                with running("nginx", proxy, front, "/ready", folder):
                    yield Fleet(gateways, front, session)
            finally:
                for gateway in gateways:
                    await asyncio.to_thread(gateway.stop, signal.SIGTERM)
