"""`make audit`: known vulnerabilities of the pinned dependencies. The list of them is on the network."""

import subprocess
import sys

from release.clean_environment import CONSTRAINTS

# Nothing was found out: neither that there are vulnerabilities (1), nor that there are none (0).
CANNOT_RUN = 3
# What pip-audit says of each, at the end of a traceback or of a line.
NO_NETWORK = ("ConnectionError", "ConnectTimeout", "NewConnectionError", "ServiceError", "ProxyError", "Max retries exceeded")


def main() -> None:
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--no-deps", "--disable-pip"]
    done = subprocess.run([*command, "--requirement", CONSTRAINTS], capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode != 0 and any(sign in done.stderr for sign in NO_NETWORK):
        last = done.stderr.strip().splitlines()[-1]
        print(f"audit: NOT DONE. The list of vulnerabilities cannot be reached from here: {last}", file=sys.stderr)
        sys.exit(CANNOT_RUN)
    print(done.stderr, end="", file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
