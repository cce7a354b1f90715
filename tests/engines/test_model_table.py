"""What the name of a model means is found out once, and anew when anything has changed that it follows from."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from antiphon.core.knowledge.knowledge import Model
from antiphon.core.knowledge.model_names import ModelNames
from antiphon.engines.pool import MOST_NAMES, Pool
from antiphon.engines.upstream import Engine
from antiphon.errors import NotFound


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    async with aiohttp.ClientSession() as session:
        yield make(session, "a", "b")


def make(session: aiohttp.ClientSession, *models: str) -> Engine:
    made = Engine("http://127.0.0.1:1", session)
    made.knowledge.models = tuple(Model(name, 0, "") for name in models)
    made.ready = True
    return made


async def chosen(pool: Pool, asked: str | None) -> tuple[list[Engine], str | None]:
    choice = await pool.choose(asked, None)
    return choice.engines, choice.model


async def test_a_new_list_counts_at_once(engine: Engine) -> None:
    pool = Pool([engine])
    assert await chosen(pool, "a") == ([engine], "a")
    assert pool.is_listed("a")
    engine.knowledge.models = (Model("b", 0, ""), Model("c", 0, ""))
    with pytest.raises(NotFound):
        pool.table().meaning_of("a")
    assert await chosen(pool, "c") == ([engine], "c")
    assert (pool.is_listed("a"), pool.is_listed("c")) == (False, True)


async def test_other_names_in_the_settings_count_at_once(engine: Engine) -> None:
    pool = Pool([engine], names=ModelNames({"fast": "a"}))
    assert await chosen(pool, "fast") == ([engine], "a")
    pool.names = ModelNames({"fast": "b"}, default="unlisted")
    assert await chosen(pool, "fast") == ([engine], "b")
    assert pool.is_listed("unlisted")


async def test_other_engines_count_at_once(engine: Engine) -> None:
    pool = Pool([engine])
    assert await chosen(pool, "a") == ([engine], "a")
    async with aiohttp.ClientSession() as session:
        another = make(session, "a")
        pool.replace([another])
        assert await chosen(pool, "a") == ([another], "a")


async def test_an_engine_that_takes_any_model_counts_at_once(engine: Engine) -> None:
    pool = Pool([engine])
    with pytest.raises(NotFound):
        pool.table().meaning_of("anything")
    engine.knowledge.takes_any_model = True
    assert pool.table().meaning_of("anything").chosen.model == "anything"
    assert pool.table().some_take_any


async def test_an_engine_that_is_away_is_not_chosen_though_its_models_are_known(engine: Engine) -> None:
    async with aiohttp.ClientSession() as session:
        another = make(session, "a")
        pool = Pool([engine, another])
        assert pool.serving("a") == [engine, another]
        engine.ready = False
        assert await chosen(pool, "a") == ([another], "a")


async def test_any_number_of_names_may_be_asked_for(engine: Engine) -> None:
    pool = Pool([engine])
    engine.knowledge.takes_any_model = True
    table = pool.table()
    for at in range(3 * MOST_NAMES):
        table.meaning_of(str(at))
    assert len(table._meanings) <= MOST_NAMES
