"""What deploy/ says of commands, settings, paths and times is so. Docker, Kubernetes and systemd themselves are not run."""

import asyncio
import fnmatch
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from deploy.files import (
    ALL,
    CODE,
    COMPOSE,
    DEPLOY,
    DOCKERFILE,
    KUBERNETES,
    ROOT,
    SERVICE,
    argument,
    compose,
    image_environment,
    instructions,
    manifests,
    service,
)
from support.commands import ANTIPHON, bare_environment
from support.engine import MockEngine
from support.gateway import running_gateway

from antiphon.app.app import CLOSING_TIME
from antiphon.app.checked_settings import load_settings
from antiphon.app.start_up import refuse_to_be_open
from antiphon.gateway.background.workers import CLOSING_TIME as WORKERS_CLOSING_TIME
from antiphon.server.readiness import DEADLINE
from antiphon.server.routes.table import ROUTES
from antiphon.server.traces.provider import CLOSING_TIME as TRACES_CLOSING_TIME
from antiphon.settings.settings import Settings
from antiphon.settings.sources import load
from bench.processes import free_port

# How long a gateway may take to end, at most.
LONGEST_STOP = Settings().shutdown_timeout + CLOSING_TIME + WORKERS_CLOSING_TIME + TRACES_CLOSING_TIME
VALUE = re.compile(r"\$\{(\w+):\?[^}]*\}")
# A tag that does not move: with a version.
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+[\w.-]*")


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_is_a_setting(path: Path) -> None:
    names = set(re.findall(r"ANTIPHON_([A-Z_]+)", path.read_text()))
    assert {name.lower() for name in names} <= set(Settings.__struct_fields__)


def test_every_yaml_file_can_be_read() -> None:
    found = [path for path in ALL if path.suffix in {".yaml", ".yml"}]
    assert len(found) >= 5
    for path in found:
        assert list(yaml.safe_load_all(path.read_text()))


def test_the_options_of_every_command_are_those_of_the_command_line() -> None:
    container = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    (unit,) = service()["ExecStart"]
    commands = [json.loads(argument("CMD")), container["args"], unit.split()[1:]]
    help = subprocess.run([*ANTIPHON, "serve", "--help"], env=bare_environment(COLUMNS="200"), capture_output=True, text=True)
    known = set(re.findall(r"--[a-z-]+", help.stdout))
    assert len(known) > 10
    for command, *options in commands:
        assert command == "serve"
        assert {option for option in options if option.startswith("--")} <= known


TOOLS = set(
    re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", (ROOT / "docs/tools.md").read_text(), re.MULTILINE)[:6]))
)
NO_CODE = TOOLS - {"code_interpreter", "shell"}
WORKING = {DOCKERFILE: NO_CODE, COMPOSE: NO_CODE, KUBERNETES: NO_CODE, SERVICE: NO_CODE, CODE: TOOLS}


@pytest.mark.parametrize(("path", "working"), WORKING.items(), ids=lambda each: getattr(each, "name", ""))
def test_each_file_says_at_its_top_which_hosted_tools_work(path: Path, working: set[str]) -> None:
    """`test_confined.py` tries what is said of code_interpreter."""
    head = path.read_text().partition("\n\n")[0]
    assert set(named(head, "that work")) == working
    assert set(named(head, "that do not")) == TOOLS - working


def named(head: str, which: str) -> list[str]:
    found = re.search(rf"^# Hosted tools {which}: ([\w, ]+)\.", head, re.MULTILINE)
    return found[1].split(", ") if found is not None else []


# ---- the image -------------------------------------------------------------------------------------------------------


def test_images_have_tags_that_do_not_move() -> None:
    bases = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    images = {each["image"] for name, each in compose()["services"].items() if "build" not in each}
    assert len(bases) == 1
    assert len(images) == 3
    assert compose()["services"]["antiphon-code"]["build"]["target"] == "code"
    assert all(PINNED.fullmatch(image) for image in bases | images)


def test_the_image_runs_as_nobody_special_and_compiles_nothing() -> None:
    order = [name for name, _ in instructions()]
    assert re.fullmatch(r"[1-9]\d{4,}:[1-9]\d{4,}", argument("USER"))
    assert order.index("USER") < order.index("ENTRYPOINT")
    steps = " ".join(rest for name, rest in instructions() if name == "RUN")
    assert "--only-binary :all:" in steps
    assert not re.search(r"gcc|build-essential|make\b", steps)
    assert re.findall(r"apt-get install ([^&]*)", steps) == ["--yes --no-install-recommends libgomp1 "]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    copied = [part for name, rest in instructions() if name == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)
    # What the build of the package needs.
    project = (ROOT / "pyproject.toml").read_text()
    assert 'readme = "README.md"' in project
    assert 'license-files = ["LICENSE"]' in project
    assert not fnmatch.filter(copied, "*.env")


def test_the_image_has_the_extras_that_its_files_need() -> None:
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    everything = set(re.findall(r"\w+", optional["all"][0].partition("[")[2]))
    (extras,) = re.findall(r"EXTRAS=([\w,]+)", argument("ARG", "build"))
    with_code = compose()["services"]["antiphon-code"]["build"]["args"]["EXTRAS"]
    # All but an engine of its own, and in the first image what code in a sandbox imports.
    assert set(with_code.split(",")) == everything - {"embedded", "hf"}
    assert set(extras.split(",")) == everything - {"embedded", "hf", "code"}


async def test_its_health_check_asks_a_gateway(engine: MockEngine) -> None:
    _, _, code = json.loads(argument("HEALTHCHECK").partition("CMD ")[2])
    async with running_gateway(engine) as gateway:
        assert await _checks(code, int(gateway.url.rpartition(":")[2])) == 0
    assert await _checks(code, free_port()) != 0


async def _checks(code: str, port: int) -> int:
    environment = os.environ | {"ANTIPHON_PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait()


def test_the_image_does_not_start_without_a_key() -> None:
    started = subprocess.run(
        [*ANTIPHON, *json.loads(argument("CMD"))],
        env=bare_environment(**{name: value for name, value in image_environment().items() if name.startswith("ANTIPHON_")}),
        capture_output=True,
        text=True,
    )
    assert started.returncode == 2
    assert "ANTIPHON_API_KEY" in started.stderr


# ---- how it is set up and stopped ------------------------------------------------------------------------------------


def test_the_settings_of_compose_let_the_gateway_start() -> None:
    given = compose()["services"]["antiphon"]["environment"]
    example = dict(
        line.partition("=")[::2] for line in (DEPLOY / ".env.example").read_text().splitlines() if line[:1].isalpha()
    )
    assert set(VALUE.findall(COMPOSE.read_text())) == example.keys()
    environment = {name: VALUE.sub(lambda found: example[found.group(1)], value) for name, value in given.items()}
    settings = refuse_to_be_open(load({}, image_environment() | environment))
    assert settings.store == "postgresql://antiphon:replace-me@postgres/antiphon"
    assert settings.upstream == ("http://host.docker.internal:8080",)
    assert settings.api_key
    assert settings.metrics_key


def test_the_settings_of_kubernetes_let_the_gateway_start() -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    environment = manifests()["Secret"]["stringData"] | {each["name"]: each["value"] for each in container["env"]}
    settings = refuse_to_be_open(load({}, image_environment() | environment))
    assert settings.upstream == ("http://engine:8000",)
    assert container["envFrom"] == [{"secretRef": {"name": manifests()["Secret"]["metadata"]["name"]}}]
    assert [each["containerPort"] for each in container["ports"]] == [settings.port]


def test_the_file_of_the_unit_can_be_loaded() -> None:
    settings = load_settings({}, DEPLOY / "systemd" / "antiphon.toml")
    assert settings.upstream
    assert refuse_to_be_open(settings) is settings


def test_whoever_stops_a_gateway_waits_long_enough() -> None:
    assert _seconds(compose()["services"]["antiphon"]["stop_grace_period"]) > LONGEST_STOP
    assert float(service()["TimeoutStopSec"][0]) > LONGEST_STOP
    spec = manifests()["Deployment"]["spec"]["template"]["spec"]
    pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] > LONGEST_STOP + pause


def _seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_every_probe_asks_a_route_in_the_time_that_it_needs() -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    # An engine or a store that is away is no reason to start the gateway anew.
    assert paths == {"startup": "/health", "liveness": "/health", "readiness": "/ready"}
    assert set(paths.values()) <= {route.path for route in ROUTES}
    names = {each["name"] for each in container["ports"]}
    assert {container[f"{name}Probe"]["httpGet"]["port"] for name in paths} <= names
    (port,) = manifests()["Service"]["spec"]["ports"]
    assert port["targetPort"] in names


def test_the_store_answers_within_the_time_of_the_probe() -> None:
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["timeoutSeconds"] > DEADLINE


def test_the_selectors_of_kubernetes_fit() -> None:
    labels = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests()["Service"]["spec"]["selector"] == labels
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert manifests()[kind]["spec"]["selector"]["matchLabels"] == labels


def test_the_unit_is_hardened_and_reloads_by_the_signal() -> None:
    members = service()
    assert members["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    for name, value in (("DynamicUser", "yes"), ("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("UMask", "0077")):
        assert members[name] == [value]
    (data,) = re.findall(r"ANTIPHON_DATA_DIR=(\S+)", members["Environment"][0])
    assert data == f"/var/lib/{members['StateDirectory'][0]}"


def test_prometheus_has_the_key_and_the_address_of_compose() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["antiphon:8484"]}]
    secret = Path(job["authorization"]["credentials_file"]).name
    assert compose()["services"]["prometheus"]["secrets"] == [secret]
    assert compose()["secrets"][secret] == {"environment": "ANTIPHON_METRICS_KEY"}
    for name in ("prometheus", "grafana"):
        for volume in compose()["services"][name]["volumes"]:
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists()
