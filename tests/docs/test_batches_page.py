"""The program at the beginning of docs/batches.md, with the line that the page shows."""

import asyncio
import sys
from pathlib import Path

from support import batches
from support.batches import sdk
from support.doc_blocks import blocks
from support.gateway import GatewayUnderTest

PROGRAM, LINE = (
    next(block.text for block in blocks() if block.page == "docs/batches.md" and block.language == language)
    for language in ("python", "json")
)


async def test_the_program_makes_a_batch_of_lines_as_the_page_shows_them(gateway: GatewayUnderTest, tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text(LINE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM.replace("http://127.0.0.1:8484", gateway.url),
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert output.startswith(b"BatchRequestCounts(")
    async with sdk(gateway) as client:
        [made] = (await client.batches.list()).data
        batch = await batches.ended(client, made.id)
        assert batch.status == "completed"
        [answered] = await batches.outputs(client, batch)
        assert (answered["custom_id"], answered["response"]["status_code"]) == ("page-1", 200)
