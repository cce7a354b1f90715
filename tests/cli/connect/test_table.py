"""The clients that `antiphon connect` knows."""

import ast
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from support.doc_blocks import ROOT

from antiphon.cli.connect.client import Client, Facts, ServedModel
from antiphon.cli.connect.table import CLIENTS

RENDERED = [client for client in CLIENTS.values() if client.text is not None or client.config is not None]
TRIED = [client for client in RENDERED if client.is_tried]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8484"
KEY = "se\"cr'et"
MODELS = [ServedModel("mock", 32_768), ServedModel("seeing", 8_192, sees_images=True)]


def of_the_page(client: Client) -> str:
    section = PAGE.partition(f"## {client.title}\n")[2].partition("\n#")[0]
    found = re.search(r"^```\w+\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/clients.md has no block for {client.title}"
    return found[1]


def in_the_page(client: Client) -> str:
    """Programs work with any model: the gateway's default one answers for it."""
    is_program = client.python is not None or client.node is not None or client.name == "llm"
    return client.render(Facts(URL, [ServedModel("any" if is_program else "MODEL", 32_768)]))


@pytest.mark.parametrize("client", TRIED, ids=lambda client: client.name)
def test_what_is_printed_is_what_the_page_has_and_its_tests_run(client: Client) -> None:
    assert in_the_page(client) == of_the_page(client)


def test_every_block_of_the_page_is_printed_for_some_client() -> None:
    titles = re.findall(r"^#{2,3} (.+)\n+(?:In [^\n]+\n+)?```(?:python|js|json|yaml|bash)$", PAGE, re.MULTILINE)
    assert sorted(titles) == sorted(client.title for client in TRIED)


def test_the_page_names_those_that_nobody_has_tried() -> None:
    (line,) = re.findall(r"^Not tried are .*$", PAGE, re.MULTILINE)
    names = re.findall(r"`([\w-]+)`", line.partition(":")[0])
    assert sorted(names) == sorted(client.name for client in CLIENTS.values() if not client.is_tried)


def test_there_is_one_row_for_each_api_of_a_client_and_the_readme_counts_them() -> None:
    assert len({client.title for client in CLIENTS.values()}) == len(CLIENTS) == 38

    def count(rows: Iterable[Client]) -> int:
        """A client that has several APIs is one."""
        return len({re.sub(", (Chat Completions|Messages)", "", client.title) for client in rows})

    tried = count(client for client in CLIENTS.values() if client.is_tried)
    figures = f"{count(CLIENTS.values())} clients, {tried} of them run by the tests"
    assert figures in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("client", RENDERED, ids=lambda client: client.name)
def test_the_address_and_the_model_of_the_gateway_are_in_it(client: Client) -> None:
    rendered = client.render(Facts("http://10.0.0.1:9", MODELS))
    assert "http://10.0.0.1:9" in rendered
    assert "mock" in rendered
    assert not re.search(r"\bURL(?!:)|\bKEY\b|\bMODEL\b|\bWINDOW\b|\bOUTPUT\b|127\.0\.0\.1", rendered)


@pytest.mark.parametrize("client", RENDERED, ids=lambda client: client.name)
def test_a_key_is_not_printed_but_written(client: Client) -> None:
    printed = client.render(Facts(URL, MODELS, KEY))
    assert "se" + '"' not in printed
    assert KEY not in printed
    if client.name not in ("llm", "zed"):
        assert "ANTIPHON_API_KEY" in printed or "YOUR_KEY" in printed
    if client.language == "python":
        ast.parse(printed)


@pytest.mark.parametrize("client", [each for each in RENDERED if each.language == "python"], ids=lambda client: client.name)
def test_no_name_of_a_model_can_break_out_of_a_program(client: Client) -> None:
    name = "a\"); import os\n#'\\"
    program = ast.parse(client.render(Facts(URL, [ServedModel(name, 8_192)], KEY, shows_key=True)))
    texts = [node.value for node in ast.walk(program) if isinstance(node, ast.Constant)]
    assert any(name in text for text in texts if isinstance(text, str))
    assert KEY in texts


def test_no_name_of_a_model_can_break_out_of_a_command() -> None:
    name = "a; echo broken 'out'"
    for client in (each for each in RENDERED if each.language == "bash"):
        lines = client.render(Facts(URL, [ServedModel(name, 8_192)], KEY, shows_key=True)).splitlines()
        shown = subprocess.run(["sh", "-c", "\n".join([*lines[:-1], "env"])], capture_output=True, text=True, check=True).stdout
        assert "broken 'out'" in shown or "MODEL" not in "".join(lines[:-1])
        assert not re.search("^broken", shown, re.MULTILINE)
        assert f"KEY={KEY}\n" in shown


def test_no_name_of_a_model_can_break_out_of_javascript() -> None:
    name = "a'); b(\n\"\\"
    for client in (each for each in RENDERED if each.language == "js"):
        rendered = client.render(Facts(URL, [ServedModel(name, 8_192)]))
        assert "'a\\'); b(\\n\"\\\\'" in rendered


@pytest.mark.parametrize("client", [each for each in RENDERED if each.config is not None], ids=lambda client: client.name)
def test_all_models_and_their_windows_are_in_a_file(client: Client, tmp_path: Path) -> None:
    shown = msgspec.json.decode(client.render(Facts(URL, MODELS)))
    text = str(shown)
    assert "mock" in text
    assert "seeing" in text
    windows = {"vscode": ["24576", "6144"]}.get(client.name, ["32768", "8192"])
    assert all(window in text for window in windows)
