"""Files and images that requests name by their addresses: fetched, and read as uploaded ones are."""

import asyncio
from urllib.parse import unquote, urlsplit

from msgspec import structs

from antiphon.core.checks.work import CheckOutcome, DocumentWork, UrlWork
from antiphon.core.prompt.documents import KnownDocuments, plain_text, work_digest
from antiphon.files.contents import in_thread
from antiphon.files.file_inputs import RunCheck, bounded, image_to_outcome
from antiphon.tools.fetcher import Fetcher, FetchFailed

# Seconds for which it is remembered what was at an address: a conversation sends the same ones with each of its requests, and
# its prompt has to begin as before.
LIFETIME = 3600.0
LONGEST_NAME = 255
NOTHING_LEFT = (
    "the files and images that were fetched before it for this request have as many bytes as may be fetched (`fetch_bytes`)"
)


class UrlFiles:
    def __init__(self, fetcher: Fetcher, run_check: RunCheck) -> None:
        self._fetcher = fetcher
        self._run_check = run_check
        self._known = KnownDocuments()
        # By their digests: until when they count.
        self._until: dict[bytes, float] = {}

    async def outcome_of(self, work: UrlWork, owner: str, *, patient: bool = False) -> CheckOutcome:
        """What cannot be fetched or read has a complaint."""
        now, digest = asyncio.get_running_loop().time(), work_digest(work)
        while self._until and next(iter(self._until.values())) <= now:
            del self._until[next(iter(self._until))]
        known = self._known.get(digest) if digest in self._until else None
        if known is not None:
            return known
        if work.most_bytes <= 0:
            return CheckOutcome(complaint=NOTHING_LEFT)
        try:
            fetched = await self._fetcher.fetch(work.url, work.most_bytes)
        except FetchFailed as failed:
            return CheckOutcome(complaint=str(failed))
        outcome = await self._read(work, fetched.body, owner, patient=patient)
        if outcome.complaint is None and not outcome.unfinished:
            self._known.add(digest, outcome)
            self._until.pop(digest, None)
            self._until[digest] = now + LIFETIME
        return outcome

    async def _read(self, work: UrlWork, body: bytes, owner: str, *, patient: bool) -> CheckOutcome:
        if work.is_image:
            return await in_thread(lambda: image_to_outcome(body))
        text = await in_thread(lambda: plain_text(body))
        outcome = CheckOutcome(text) if text is not None else await self._run_check(DocumentWork(body), owner, patient=patient)
        return structs.replace(bounded(outcome), title=_name_of(work.url))

    async def close(self) -> None:
        await self._fetcher.close()


def _name_of(url: str) -> str:
    parts = urlsplit(url)
    name = unquote(parts.path.rpartition("/")[2]) or parts.hostname or ""
    # It stands in front of the text, in quotes.
    return "".join(letter for letter in name if letter.isprintable() and letter != '"')[-LONGEST_NAME:]
