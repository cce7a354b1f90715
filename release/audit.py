"""`make audit`: known vulnerabilities of the pinned dependencies. The list of them is on the network."""

import json
import subprocess
import sys
from typing import Any, NamedTuple

from release.clean_environment import CONSTRAINTS

NONE_KNOWN, SOME_KNOWN = 0, 1
# Of some dependencies, or of all, nothing was found out: that is not the same as "none known".
NOT_DONE = 3


class Verdict(NamedTuple):
    code: int
    text: str


def judge(report: str, errors: str) -> Verdict:
    """What pip-audit found: its report as JSON, and what it wrote to standard error."""
    try:
        dependencies: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError):
        reason = (errors.strip().splitlines() or ["it wrote nothing"])[-1]
        return Verdict(NOT_DONE, f"audit: NOT DONE. The list of vulnerabilities cannot be reached from here: {reason}")
    found = [
        f"{each['name']} {each['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in dependencies
        for flaw in each.get("vulns", ())
    ]
    if found:
        return Verdict(SOME_KNOWN, "\n".join([f"audit: {len(found)} known vulnerabilities", *found]))
    unknown = [each["name"] for each in dependencies if "skip_reason" in each]
    if unknown or not dependencies:
        text = f"audit: NOT DONE. Nothing can be found out here about {len(unknown)} of {len(dependencies)} dependencies: "
        return Verdict(NOT_DONE, text + ", ".join(unknown))
    return Verdict(NONE_KNOWN, f"audit: no known vulnerability in {len(dependencies)} dependencies")


def main() -> None:
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--no-deps", "--disable-pip", "--format", "json"]
    done = subprocess.run([*command, "--requirement", CONSTRAINTS], capture_output=True, text=True)
    verdict = judge(done.stdout, done.stderr)
    print(verdict.text)
    sys.exit(verdict.code)


if __name__ == "__main__":
    main()
