"""`antiphon batch`: a file is uploaded, its batch is followed, and its results are written. All of that can be interrupted: the
batch goes on, and the same command follows it again."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import typer
from msgspec import Struct

from antiphon.cli.batch.progress import Progress
from antiphon.cli.batch.requests_file import Requests, digest_of, write_requests, write_results
from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.cli.gateway_readiness import when_ready
from antiphon.errors import UNREADABLE
from antiphon.installation import as_typed
from antiphon.settings.settings import Settings

# Seconds between two looks.
INTERVAL = 0.5
# Seconds for which a gateway that does not answer is asked again: it may have been started anew.
PATIENCE = 60.0
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
NOT_FOUND = 404
GOES_ON = "The batch {id} goes on. The same command follows it again; with --cancel, it stops."
DONE = "{completed} of {total} requests were answered, {failed} failed. The results are in {out}."
STOPPED = "The batch {status}. "
BOUNDARY = "antiphon-batch"
PIECE = 256 * 1024


class CannotRun(Exception):
    """The message is for a person."""


class Kept(Struct):
    """What is written beside the results, until they are there."""

    batch: str
    url: str
    # Of the input file.
    digest: str
    prompts: bool


class Batches(GatewayClient):
    def upload(self, content: BinaryIO, size: int) -> str:
        head = (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n'
            'Content-Disposition: form-data; name="file"; filename="requests.jsonl"\r\n\r\n'
        ).encode()
        tail = f"\r\n--{BOUNDARY}--\r\n".encode()

        def pieces() -> Iterator[bytes]:
            yield head
            while piece := content.read(PIECE):
                yield piece
            yield tail

        headers = {
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            "Content-Length": str(len(head) + size + len(tail)),
        }
        id: str = self.send("/v1/files", pieces(), headers)["id"]
        return id

    def fetch(self, file: str | None, to: BinaryIO) -> BinaryIO:
        """Nothing, if there is no such file."""
        if file is not None:
            for piece in self.pieces(f"/v1/files/{file}/content"):
                to.write(piece)
        to.seek(0)
        return to


class Work:
    """One file, and the batch that is made of it."""

    def __init__(self, client: Batches, file: Path, out: Path, model: str | None) -> None:
        self._client = client
        self._file = file
        self._out = out
        self._model = model
        self._note = out.with_name(f"{out.name}.batch")

    def find(self) -> Kept | None:
        """The batch that was begun before, with the same file at the same gateway."""
        with suppress(OSError, *UNREADABLE):
            kept = msgspec.json.decode(self._note.read_bytes(), type=Kept)
            if kept.digest == digest_of(self._file) and kept.url == self._client.url:
                return kept
        return None

    def begin(self) -> Kept:
        with tempfile.TemporaryFile() as requests:
            found = self._write(requests)
            size = requests.tell()
            requests.seek(0)
            file = self._client.upload(requests, size)
        body = {"input_file_id": file, "endpoint": found.endpoint, "completion_window": "24h"}
        id = self._client.send("/v1/batches", msgspec.json.encode(body))["id"]
        kept = Kept(id, self._client.url, digest_of(self._file), found.prompts)
        self._note.write_bytes(msgspec.json.encode(kept))
        return kept

    def _write(self, to: BinaryIO) -> Requests:
        found = write_requests(self._file, to, self._model)
        if not found.lines:
            raise CannotRun(f"{self._file} has no lines.")
        return found

    def follow(self, kept: Kept) -> dict[str, Any]:
        """To its end."""
        with Progress() as progress:
            while (batch := self._look(kept))["status"] not in ENDED:
                progress.show(batch)
                time.sleep(INTERVAL)
        return batch

    def _look(self, kept: Kept) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                found: dict[str, Any] = self._client.get(f"/v1/batches/{kept.batch}")
                return found
            except GatewayFailed as failed:
                is_away = failed.status is None or failed.status >= 500
                if not is_away or time.monotonic() > until:
                    raise
            time.sleep(INTERVAL)

    def cancel(self, kept: Kept) -> None:
        self._client.send(f"/v1/batches/{kept.batch}/cancel", b"")

    def finish(self, kept: Kept, batch: dict[str, Any]) -> None:
        """The results take the place of an earlier file at once."""
        part = self._out.with_name(f"{self._out.name}.part")
        with ExitStack() as stack:
            names = (batch.get("output_file_id"), batch.get("error_file_id"))
            fetched = [self._client.fetch(name, stack.enter_context(tempfile.TemporaryFile())) for name in names]
            with part.open("wb") as to:
                write_results(self._file, fetched, to, prompts=kept.prompts)
        os.replace(part, self._out)
        self._note.unlink(missing_ok=True)


def run_batch(settings: Settings, file: Path, out: Path | None, *, model: str | None, url: str | None, cancel: bool) -> int:
    """Returns the exit code: 1 if not every request was answered."""
    client = Batches(choose_gateway(settings, url), key_for(settings))
    out = out or file.with_name(f"{file.stem}.out.jsonl")
    if out.resolve() == file.resolve():
        raise CannotRun(f"The results would replace {file}: name another file with -o.")
    work = Work(client, file, out, model)
    kept = work.find()
    if kept is None and cancel:
        raise CannotRun(f"No batch of {file} is running.")
    kept = kept or when_ready(client, work.begin)
    try:
        if cancel:
            work.cancel(kept)
        batch = _followed(work, kept)
    except KeyboardInterrupt:
        typer.echo(GOES_ON.format(id=kept.batch), err=True)
        raise
    work.finish(kept, batch)
    return _report(batch, out)


def _followed(work: Work, kept: Kept) -> dict[str, Any]:
    try:
        return work.follow(kept)
    except GatewayFailed as failed:
        if failed.status != NOT_FOUND:
            raise
    # The gateway has another store by now.
    return work.follow(work.begin())


def _report(batch: dict[str, Any], out: Path) -> int:
    counts, status = batch["request_counts"], batch["status"]
    begin = (
        "" if status == "completed" else STOPPED.format(status="was cancelled" if status == "cancelled" else f"has {status}")
    )
    if status == "failed" and not counts["total"]:
        for each in (batch.get("errors") or {}).get("data", []):
            typer.echo(as_typed(f"antiphon: {each['message']}"), err=True)
    typer.echo(begin + DONE.format(out=out, **counts), err=True)
    return 0 if counts["completed"] == counts["total"] and status == "completed" else 1
