"""Batches: their lines are counted apart from the requests of people, keep to the budget, and their end is reported."""

from support.batches import begin, ended, errors, line, run, sdk
from support.engine import MockEngine
from support.gateway import running_gateway
from support.usage import used
from support.webhook_receiver import SECRET, receiving

from antiphon.settings.tables import BudgetSettings, UsageSettings, WebhookEndpointSettings, WebhookSettings
from antiphon.store.account_records import Counts


async def test_the_lines_of_a_batch_are_counted_and_its_end_is_reported(engine: MockEngine) -> None:
    async with receiving() as receiver:
        webhooks = WebhookSettings(endpoints={"one": WebhookEndpointSettings(url=receiver.url, secret=SECRET)})
        async with running_gateway(engine, webhooks=webhooks) as gateway, sdk(gateway) as client:
            batch = await run(client, [line("a"), line("b")])
            (event,) = await receiver.got(1)
            assert (event.type, event.data.id) == ("batch.completed", batch.id)
            counts = (await used(gateway))["", "mock", "batch"]
            assert counts == Counts(2, 0, 24, 0, 10)
            # One that has no line that can be run.
            failed = await ended(client, (await begin(client, [b"{"])).id)
            assert (await receiver.got(2))[1].type == "batch.failed"
            assert failed.status == "failed"


async def test_a_line_that_comes_after_the_budget_is_used_up_fails(engine: MockEngine) -> None:
    usage = UsageSettings(budgets={"ada": BudgetSettings(requests_per_day=0)})
    async with running_gateway(engine, keys={"ada": ("a",)}, usage=usage) as gateway, sdk(gateway, "a") as client:
        batch = await run(client, [line("a")])
        (failed,) = await errors(client, batch)
        assert failed["response"]["body"]["error"]["code"] == "insufficient_quota"
    assert engine.requests == []
