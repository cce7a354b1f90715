"""The suite that others wrote: how it is asked, and what is taken of its report."""

import json
from pathlib import Path

import pytest

from bench.endpoints import page
from bench.endpoints.results import Results, Setup
from bench.endpoints.subjects import Endpoint
from bench.endpoints.suite import FORMATS, Verdict, findings, run
from bench.processes import BenchFailed

REPORT = {
    "summary": {"passed": 1},
    "results": [
        {"id": "a", "name": "Basic", "status": "passed", "duration_ms": 1},
        {"id": "b", "name": "Tools", "status": "failed", "errors": ["no call", "no output"]},
        {"id": "c", "name": "Images", "status": "skipped"},
    ],
}


def program(folder: Path, prints: str) -> Path:
    """One that keeps its arguments, prints this, and fails as llm-comply does where a test has failed."""
    file = folder / "llm-comply"
    file.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/asked\ncat <<'END'\n{prints}\nEND\necho oh >&2\nexit 1\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("api", FORMATS)
async def test_each_api_is_tested_in_its_own_form(api: str, tmp_path: Path) -> None:
    tests = await run(Endpoint("http://127.0.0.1:1", "qwen"), api, program(tmp_path, json.dumps(REPORT)))
    assert [each.status for each in tests] == ["passed", "failed", "skipped"]
    asked = (tmp_path / "asked").read_text()
    assert "--base-url http://127.0.0.1:1/v1 --api-key any --model qwen" in asked
    assert f"--format {' '.join(FORMATS[api])}" in asked


async def test_a_program_that_reports_nothing_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="oh"):
        await run(Endpoint("http://127.0.0.1:1", "qwen"), "chat", program(tmp_path, "usage: llm-comply"))


def test_a_test_that_was_skipped_is_not_counted(tmp_path: Path) -> None:
    results = Results(tmp_path / "found.jsonl")
    results.add(Setup("suite", "antiphon", ["llm-comply 0.5.0"], "smollm2", "2 cores"))
    results.add(
        *findings(
            "chat",
            "antiphon",
            [Verdict("Basic", "passed"), Verdict("Tools", "failed", ["no call"]), Verdict("Images", "skipped")],
        )
    )
    assert "| tests of llm-comply, Chat Completions | – | – | 1 of 2 |" in page.summary(results)
    assert "| Tools | – | – | failed |" in page.sections(results)
    assert "Images |" not in page.sections(results)
