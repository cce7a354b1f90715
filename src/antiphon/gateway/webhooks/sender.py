"""Sends messages to webhooks until they are accepted, each endpoint by itself: one that is dead delays no other."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from antiphon.errors import StoreUnavailable
from antiphon.gateway.webhooks.messages import Endpoint, signed_headers
from antiphon.logs import log
from antiphon.store.account_records import Delivery
from antiphon.store.accounts.store import AccountStore
from antiphon.tools.addresses import AddressPolicy, AddressRefused, guarded_connector, url_complaint

# Seconds until the next attempt, by how many there were. After the last of these, it stays so.
PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 4 * 3600.0, 8 * 3600.0)
# How many messages of one endpoint are sent at once.
AT_ONCE = 4
# Seconds beyond the patience for one message until another gateway may send it.
MARGIN = 30.0
# Seconds after which a store that is away is asked again.
RETRY_INTERVAL = 2.0


class WebhookSender:
    def __init__(
        self,
        store: AccountStore,
        endpoints: Sequence[Endpoint],
        policy: AddressPolicy,
        *,
        patience: float,
        agent: str = "antiphon",
        pauses: Sequence[float] = PAUSES,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`patience`: seconds for one message."""
        self._store = store
        self._endpoints = endpoints
        self._policy = policy
        self._patience = patience
        self._agent = agent
        self._pauses = pauses
        self._now = now

    async def run(self) -> None:
        if not self._endpoints:
            return
        connector = guarded_connector(self._policy, force_close=True)
        timeout = aiohttp.ClientTimeout(total=self._patience)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as group,
        ):
            for endpoint in self._endpoints:
                group.create_task(self._serve(endpoint, session))

    async def _serve(self, endpoint: Endpoint, session: aiohttp.ClientSession) -> None:
        with self._store.follow_deliveries() as wakeup:
            while True:
                try:
                    due = await self._store.claim_deliveries(endpoint.name, self._patience + MARGIN, AT_ONCE)
                    await asyncio.gather(*(self._deliver(endpoint, each, session) for each in due))
                except StoreUnavailable:
                    # Those that were claimed are due again at the end of their lease.
                    await asyncio.sleep(RETRY_INTERVAL)
                    continue
                if not due:
                    await wakeup.wait()

    async def _deliver(self, endpoint: Endpoint, message: Delivery, session: aiohttp.ClientSession) -> None:
        problem = await self._send(endpoint, message, session)
        if problem is None:
            await self._store.delivered(message.id)
            return
        pause = self._pauses[min(message.attempts, len(self._pauses)) - 1]
        facts: dict[str, Any] = {"endpoint": endpoint.name, "message": message.id, "attempts": message.attempts}
        log("webhook not delivered", level=logging.WARNING, **facts, reason=problem, again_in=pause)
        await self._store.postpone_delivery(message.id, pause)

    async def _send(self, endpoint: Endpoint, message: Delivery, session: aiohttp.ClientSession) -> str | None:
        """What is wrong, in words that may be logged. None: it was accepted."""
        if (complaint := url_complaint(self._policy, endpoint.url)) is not None:
            return complaint
        headers = {**signed_headers(endpoint.secret, message.id, int(self._now()), message.body), "user-agent": self._agent}
        try:
            # What is answered is not read: only the status says anything.
            async with session.post(endpoint.url, data=message.body, headers=headers, allow_redirects=False) as answer:
                return None if 200 <= answer.status < 300 else f"HTTP {answer.status}"
        except AddressRefused as refused:
            return str(refused)
        except TimeoutError:
            return f"no answer in {self._patience:g} s"
        except (aiohttp.ClientError, OSError) as failed:
            return type(failed).__name__
