"""`make audit`: "nothing is known to be wrong" is not said where nothing could be found out."""

import json
from typing import Any

import pytest

from release.audit import NONE_KNOWN, NOT_DONE, SOME_KNOWN, judge

SOUND = {"name": "sound", "version": "1.0", "vulns": []}
FLAWED = {"name": "flawed", "version": "2.0", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["2.1"]}]}
SKIPPED = {"name": "unheard-of", "skip_reason": "not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("dependencies", "code", "said"),
    [
        ([SOUND], NONE_KNOWN, "no known vulnerability in 1 dependencies"),
        ([SOUND, FLAWED, SKIPPED], SOME_KNOWN, "flawed 2.0: CVE-2026-1, fixed in 2.1"),
        ([SOUND, SKIPPED], NOT_DONE, "NOT DONE. Nothing can be found out here about 1 of 2 dependencies: unheard-of"),
        ([], NOT_DONE, "NOT DONE"),
    ],
)
def test_an_audit_says_what_it_found_out(dependencies: list[dict[str, Any]], code: int, said: str) -> None:
    verdict = judge(json.dumps({"dependencies": dependencies, "fixes": []}), "")
    assert verdict.code == code
    assert said in verdict.text


def test_an_audit_without_a_network_is_not_done() -> None:
    verdict = judge("", "ERROR: tried\nConnectionError: no route to host\n")
    assert verdict == (NOT_DONE, "audit: NOT DONE. The list of vulnerabilities cannot be reached from here: "
                       "ConnectionError: no route to host")  # fmt: skip
