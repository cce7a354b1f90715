"""How many tests pytest finds."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

from shape.gateway import environment_of
from shape.table import Row
from shape.tree import Tree

COMMAND = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider"]


def rows(tree: Tree) -> Iterator[Row]:
    environment = {**os.environ, **environment_of(tree), "PYTHONPATH": str(tree.source)}
    done = subprocess.run(COMMAND, cwd=tree.root, env=environment, capture_output=True, text=True)
    yield Row("tests", f"{collected(done.stdout):,}", "about 12,500")


def collected(output: str) -> int:
    found = re.search(r"^(\d+) tests? collected", output, re.MULTILINE)
    if found is None:
        raise ValueError(f"pytest has collected nothing: {output[-1000:]}")
    return int(found[1])
