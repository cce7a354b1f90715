"""What is measured: nginx, a bare aiohttp proxy, Antiphon with several settings, and LiteLLM, before the same mock engine."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.native import CORES, SUBJECT_CORES
from bench.processes import BenchFailed, free_port, running
from bench.requests import Api

ROOT = Path(__file__).parents[1]
LITELLM = ROOT / ".venv-bench" / "bin" / "litellm"
NO_NGINX = "nginx is not there to compare with. Install it, on Debian with: apt-get install nginx-light"
NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    keepalive_requests 1000000;
    upstream engine {{ server 127.0.0.1:{engine}; keepalive 512; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""
# Without `use_chat_completions_api`, LiteLLM would ask the engine for the Responses API, which it does not have.
LITELLM_CONF = """
model_list:
  - model_name: bench
    litellm_params:
      model: hosted_vllm/bench
      api_base: {engine}/v1
      api_key: none
      use_chat_completions_api: true
litellm_settings:
  telemetry: false
general_settings:
  disable_spend_logs: true
"""
LITELLM_ENVIRONMENT = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
}
OURS = sys.executable, "-m", "antiphon"
SQLITE = "sqlite:{folder}/responses.db"
ANTIPHON_CONF = 'log_level = "warning"\nprobe = false\n'


class Command(NamedTuple):
    """How a server is started, and the path that it answers with 200 once it is ready."""

    words: list[str]
    ready: str = "/v1/models"
    environment: Mapping[str, str] = {}


class Place(NamedTuple):
    """Where it runs: a folder of its own, its port, and the engine's."""

    folder: Path
    port: int
    engine: int


class Missing(Exception):
    """This subject cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    api: Api
    command: Callable[[Place], Command]
    cores: set[int] = field(default_factory=lambda: SUBJECT_CORES)


class Running(NamedTuple):
    subject: Subject
    pid: int
    port: int


@contextlib.contextmanager
def started(subject: Subject, engine: int, folder: Path, *, pause: float = 0.05) -> Iterator[Running]:
    """`pause`: between two looks at whether it is ready."""
    place = Place(folder / f"{subject.name.replace(' ', '-')}-{free_port()}", free_port(), engine)
    place.folder.mkdir()
    command = subject.command(place)
    # What it writes anywhere is gone with the folder.
    environment = {f"XDG_{kind}_HOME": str(place.folder) for kind in ("DATA", "CACHE", "CONFIG", "STATE")}
    environment |= {"XDG_RUNTIME_DIR": str(place.folder), **command.environment}
    server = running(
        subject.name,
        command.words,
        place.port,
        command.ready,
        place.folder,
        cores=subject.cores,
        environment=environment,
        pause=pause,
    )
    with server as pid:
        yield Running(subject, pid, place.port)


def find_nginx() -> str | None:
    """Debian puts it where only root's PATH looks."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def _nginx(place: Place) -> Command:
    nginx = find_nginx()
    if nginx is None:
        raise BenchFailed(NO_NGINX)
    conf = place.folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=place.folder, engine=place.engine, port=place.port))
    # -e: without it nginx would first open the log of the system's configuration.
    return Command([nginx, "-e", f"{place.folder}/nginx-error.log", "-p", str(place.folder), "-c", str(conf)])


def _proxy(place: Place) -> Command:
    return Command([sys.executable, "-m", "bench.proxy", str(place.port), f"http://127.0.0.1:{place.engine}"])


def _litellm(place: Place) -> Command:
    if not LITELLM.exists():
        raise Missing(f"LiteLLM is not installed in {LITELLM.parents[1].name}: `make bench` does that")
    conf = place.folder / "litellm.yaml"
    conf.write_text(LITELLM_CONF.format(engine=f"http://127.0.0.1:{place.engine}"))
    words = [str(LITELLM), "--config", str(conf), "--host", "127.0.0.1", "--port", str(place.port)]
    return Command(words, "/health/liveliness", LITELLM_ENVIRONMENT)


def antiphon_command(
    place: Place, program: tuple[str, ...], settings: str = "", store: str = "memory:", workers: int = 1
) -> Command:
    conf = place.folder / "antiphon.toml"
    conf.write_text(ANTIPHON_CONF + settings)
    words = [*program, "serve", "--config", str(conf), "--upstream", f"http://127.0.0.1:{place.engine}"]
    words += ["--port", str(place.port), "--store", store.format(folder=place.folder)]
    if workers > 1:
        if "--workers" not in _help(program):
            raise Missing("this version has no --workers")
        words += ["--workers", str(workers)]
    return Command(words, "/ready")


def _help(program: tuple[str, ...]) -> str:
    return subprocess.run([*program, "serve", "--help"], capture_output=True, text=True).stdout


def antiphon(name: str, program: tuple[str, ...] = OURS, **options: str | int) -> Subject:
    cores = set(CORES) if options.get("workers") else SUBJECT_CORES
    return Subject(name, "responses", partial(antiphon_command, program=program, **options), cores)  # type: ignore[arg-type]


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("nginx", "chat", _nginx),
        Subject("proxy", "chat", _proxy),
        antiphon("antiphon"),
        antiphon("sqlite", store=SQLITE),
        antiphon("no inspector", settings="inspector = false\n"),
        antiphon("recording all", settings="inspector_rate = 1000000\n"),
        antiphon("no metrics", settings="metrics = false\n"),
        antiphon("two workers", store=SQLITE, workers=2),
        Subject("litellm", "responses", _litellm),
    )
}
