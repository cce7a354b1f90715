"""The output file and the error file of a batch, written at its end from what is recorded of its lines."""

from collections.abc import Callable

from antiphon.files.batches import objects
from antiphon.files.batches.objects import LineFormat
from antiphon.files.library import FileLibrary, Upload
from antiphon.store.files import batches as operations
from antiphon.store.files.batches import Output
from antiphon.store.files.records import FileRecord, RequestBatch
from antiphon.store.operations import Database

# How many results are read at once, and how many bytes of them, with the one that these end in: each may be long.
READ_RESULTS = 1_000
READ_BYTES = 1024 * 1024
READ_LINES = 1_000
PURPOSE = "batch_output"
KIND = "application/jsonl"
# Seconds after which the files expire, unless the batch says otherwise: as in OpenAI's API.
LIFE = 2_592_000


class OutputWriter:
    def __init__(self, worker: str, database: Database, library: FileLibrary, new_id: Callable[[str], str]) -> None:
        """`worker`: the name of this gateway, which has claimed the batch."""
        self._worker = worker
        self._database = database
        self._library = library
        self._new_id = new_id

    async def write(self, batch: RequestBatch, owner: str) -> None:
        """Each line is in one of the files, once. They get their rows together with the end of the batch. `owner`: whose they
        are."""
        receiving = self._library.receiving
        async with receiving(owner, is_ours=True) as output, receiving(owner, is_ours=True) as error:
            if batch.total:
                lines = objects.format_of(batch.endpoint)
                failed = output if lines.has_one_file else error
                await self._write_results(batch, output, failed)
                await self._write_not_run(batch, lines, failed)
            written = Output(await self._close(batch, output, "output"), await self._close(batch, error, "error"))
            now = int(self._database.clock())
            if await self._database.write(operations.finish(self._worker, batch.id, written, now)):
                for upload, record in zip((output, error), written, strict=True):
                    if record is not None:
                        upload.added()

    async def _write_results(self, batch: RequestBatch, output: Upload, error: Upload) -> None:
        after = -1
        while results := await self._database.read(operations.results(batch.id, after, READ_RESULTS, READ_BYTES)):
            for each in results:
                await (output if each.is_output else error).write(each.data + b"\n")
            after = results[-1].number

    async def _write_not_run(self, batch: RequestBatch, form: LineFormat, error: Upload) -> None:
        after = -1
        while lines := await self._database.read(operations.not_run(batch.id, after, READ_LINES)):
            for _, custom_id in lines:
                line = form.not_run(self._new_id("batch_req"), custom_id, batch.stop or "expired")
                await error.write(line + b"\n")
            after = lines[-1][0]

    async def _close(self, batch: RequestBatch, upload: Upload, name: str) -> FileRecord | None:
        """None: it is empty."""
        if not upload.size:
            return None
        life = batch.details.output_life or LIFE
        return await upload.close(f"{batch.id}_{name}.jsonl", PURPOSE, life, KIND)
