"""The bodies of engines, from every kind of HTTP answer: all of their bytes, in order, and their ends."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from support.raw_server import CHUNKED, RawServer, chunked, raw_server, read_by_others, sized, write_in_pieces
from support.raw_server import Answer as Answering

from antiphon.settings.settings import TransportName
from antiphon.transport import Answer, EndpointOptions, Transport, choose, make_session

PIECES = [b'data: {"piece": %d}\n\n' % number for number in range(30)]
TEXT = b"".join(PIECES)


class Collected:
    """A receiver that keeps what it gets."""

    def __init__(self, on_data: Callable[[], None] = lambda: None) -> None:
        self.pieces: list[bytes] = []
        self.ends: list[BaseException | None] = []
        self.begun = asyncio.Event()
        self.done = asyncio.Event()
        self._on_data = on_data

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def receive(self, data: bytes) -> None:
        assert not self.ends, "nothing may follow the end"
        self.pieces.append(data)
        self.begun.set()
        self._on_data()

    def ended(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.done.set()


class Client:
    def __init__(self, server: RawServer, session: aiohttp.ClientSession, transport: Transport) -> None:
        self.server = server
        self._endpoint = transport.open_endpoint(session, EndpointOptions(server.url + "/v1/chat/completions", {}, 5, 30))

    async def ask(self) -> Answer:
        return await self._endpoint.post(b"{}", {})

    async def read(self) -> Collected:
        """A whole body, its connection kept where that can be done."""
        body, collected = await self.ask(), Collected()
        body.push(collected)
        await collected.done.wait()
        await body.finish(1)
        return collected


@asynccontextmanager
async def client_of(name: TransportName, transport: Transport, answer: Answering) -> AsyncIterator[Client]:
    async with raw_server(lambda head: answer) as server, make_session(name) as session:
        yield Client(server, session, transport)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, "a task is left behind"


def written(*data: bytes) -> Answering:
    """An answer that is written so, each piece to be read by itself."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in data:
            writer.write(piece)
            await writer.drain()
            await read_by_others()

    return answer


# ---- how a body is cut -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1000])
async def test_a_chunked_body_may_come_in_pieces_of_any_size(name: TransportName, transport: Transport, size: int) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await write_in_pieces(writer, CHUNKED + chunked(*PIECES), size)

    async with client_of(name, transport, answer) as client:
        for _ in range(2):
            collected = await client.read()
            assert (collected.data, collected.ends) == (TEXT, [None])
        assert client.server.connections == 1


async def test_a_chunked_body_may_be_split_at_any_byte(name: TransportName, transport: Transport) -> None:
    raw = chunked(b"data: one\n\n", b"data: two\r\n", b"\r\ndata: 3\n\n")
    cuts = iter(range(1, len(raw)))

    async def answer(writer: asyncio.StreamWriter) -> None:
        at = next(cuts)
        await written(CHUNKED, raw[:at], raw[at:])(writer)

    async with client_of(name, transport, answer) as client:
        for _ in range(1, len(raw)):
            collected = await client.read()
            assert (collected.data, collected.ends) == (b"data: one\n\ndata: two\r\n\r\ndata: 3\n\n", [None])
        assert client.server.connections == 1


async def test_many_chunks_may_come_in_one_read(name: TransportName, transport: Transport) -> None:
    raw = chunked(*PIECES)
    for answer in (
        written(CHUNKED + raw),
        written(CHUNKED, raw),
        written(CHUNKED, raw[:400], raw[400:]),
        written(CHUNKED + chunked(PIECES[0])[:-5], chunked(*PIECES[1:])),
    ):
        async with client_of(name, transport, answer) as client:
            collected = await client.read()
            assert (collected.data, collected.ends) == (TEXT, [None])


async def test_a_chunk_is_not_taken_for_another_that_its_content_looks_like(name: TransportName, transport: Transport) -> None:
    # The second chunk has 21 bytes, 15 in hexadecimal; without the 1 it looks like one of 5.
    raw = [CHUNKED, b"5\r\nfirst\r\n1", b"5\r\nabcde\r\n", b"f" * 14 + b"\r\n", b"0\r\n\r\n"]
    async with client_of(name, transport, written(*raw)) as client:
        collected = await client.read()
        assert (collected.data, collected.ends) == (b"firstabcde\r\n" + b"f" * 14, [None])


async def test_each_chunk_is_received_when_it_comes(name: TransportName, transport: Transport) -> None:
    go_on = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in PIECES[:3]:
            writer.write((CHUNKED if piece is PIECES[0] else b"") + chunked(piece)[:-5])
            await go_on.wait()
            go_on.clear()
        writer.write(b"0\r\n\r\n")

    async with client_of(name, transport, answer) as client:
        collected = Collected(go_on.set)
        body = await client.ask()
        body.push(collected)
        await collected.done.wait()
        await body.finish(1)
        assert collected.pieces == PIECES[:3]


# ---- kinds of bodies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 50, 100_000])
async def test_a_body_with_a_length_is_read(name: TransportName, transport: Transport, size: int) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await write_in_pieces(writer, sized(TEXT), size)

    async with client_of(name, transport, answer) as client:
        for _ in range(2):
            collected = await client.read()
            assert (collected.data, collected.ends) == (TEXT, [None])
        assert client.server.connections == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"])
async def test_an_empty_body_ends_at_once(name: TransportName, transport: Transport, head: bytes) -> None:
    async with client_of(name, transport, written(head)) as client:
        for _ in range(2):
            collected = await client.read()
            assert (collected.data, collected.ends) == (b"", [None])
        assert client.server.connections == 1


async def test_a_body_may_end_with_its_connection(name: TransportName, transport: Transport) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await written(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + PIECES[0], *PIECES[1:])(writer)
        writer.close()

    async with client_of(name, transport, answer) as client:
        for _ in range(2):
            collected = await client.read()
            assert (collected.data, collected.ends) == (TEXT, [None])
        assert client.server.connections == 2


@pytest.mark.parametrize("size", [1, 10, 100_000])
async def test_a_compressed_body_is_decompressed(name: TransportName, transport: Transport, size: int) -> None:
    packed = gzip.compress(TEXT)
    whole = sized(packed).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1)
    pieces = [packed[at : at + 20] for at in range(0, len(packed), 20)]
    in_chunks = CHUNKED.replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1) + chunked(*pieces)
    for raw in (whole, in_chunks):

        async def answer(writer: asyncio.StreamWriter, raw: bytes = raw) -> None:
            await write_in_pieces(writer, raw, size)

        async with client_of(name, transport, answer) as client:
            for _ in range(2):
                collected = await client.read()
                assert (collected.data, collected.ends) == (TEXT, [None])
            assert client.server.connections == 1


async def test_a_compressed_body_may_come_chunk_by_chunk(name: TransportName, transport: Transport) -> None:
    packed = gzip.compress(TEXT)
    pieces = [chunked(packed[at : at + 20])[:-5] for at in range(0, len(packed), 20)]
    head = CHUNKED.replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1)
    async with client_of(name, transport, written(head, *pieces, b"0\r\n\r\n")) as client:
        collected = await client.read()
        assert (collected.data, collected.ends) == (TEXT, [None])


async def test_a_body_may_be_larger_than_every_buffer(name: TransportName, transport: Transport) -> None:
    large = bytes(range(256)) * 4096 * 8
    for raw in (sized(large), CHUNKED + chunked(large), CHUNKED + chunked(*[large[:100_000]] * 80)):
        expected = large if large in raw else large[:100_000] * 80
        async with client_of(name, transport, written(raw)) as client:
            collected = await client.read()
            assert collected.ends == [None]
            assert collected.data == expected


# ---- ends that come too early ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [CHUNKED + chunked(*PIECES)[:-5], CHUNKED + chunked(*PIECES)[:-20], sized(TEXT)[:-1]])
async def test_a_connection_that_is_cut_ends_the_body_with_an_error(
    name: TransportName, transport: Transport, raw: bytes
) -> None:
    collected = Collected()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await collected.begun.wait()
        writer.transport.abort()

    async with client_of(name, transport, answer) as client:
        body = await client.ask()
        body.push(collected)
        await collected.done.wait()
        body.close()
        assert collected.data
        assert TEXT.startswith(collected.data)
        (error,) = collected.ends
        assert isinstance(error, aiohttp.ClientError | OSError)


@pytest.mark.parametrize("paused", [False, True])
async def test_closing_ends_the_body_with_an_error_and_the_engines_work(
    name: TransportName, transport: Transport, paused: bool
) -> None:
    async with client_of(name, transport, written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        if paused:
            body.pause()
        body.close()
        await collected.done.wait()
        await client.server.client_left.wait()
        body.close()
        assert [type(error) for error in collected.ends] == [aiohttp.ClientConnectionError]


async def test_closing_a_body_that_was_not_read_leaves_nothing(name: TransportName, transport: Transport) -> None:
    async with client_of(name, transport, written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        body.close()
        (await client.ask()).close()
        await client.server.client_left.wait()
        assert len(collected.ends) == 1


# ---- the flow --------------------------------------------------------------------------------------------------------


async def test_a_paused_body_stops_the_engine_and_a_resumed_one_goes_on(name: TransportName, transport: Transport) -> None:
    blocked, unblocked = asyncio.Event(), asyncio.Event()
    piece = bytes(50_000)

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        for _ in range(1000):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await read_by_others()
            # More than a client that reads leaves behind.
            if writer.transport.get_write_buffer_size() > 20 * len(piece):
                blocked.set()
                await writer.drain()
                unblocked.set()
        writer.write(b"0\r\n\r\n")

    async with client_of(name, transport, answer) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        for _ in range(2):
            body.pause()
            received = len(collected.data)
            await blocked.wait()
            await read_by_others()
            assert len(collected.data) == received
            blocked.clear()
            unblocked.clear()
            body.resume()
            await unblocked.wait()
        await collected.done.wait()
        await body.finish(1)
        assert (len(collected.data), collected.ends) == (1000 * len(piece), [None])


async def test_what_comes_at_once_after_a_pause_is_received_to_its_end(name: TransportName, transport: Transport) -> None:
    resumed = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        await written(CHUNKED, chunked(PIECES[0])[:-5])(writer)
        await resumed.wait()
        # Several chunks and the end in one read, and nothing after that.
        writer.write(chunked(*PIECES[1:]))

    async with client_of(name, transport, answer) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        body.pause()
        body.resume()
        resumed.set()
        await collected.done.wait()
        await body.finish(1)
        assert (collected.data, collected.ends) == (TEXT, [None])


async def test_a_body_that_ended_can_be_paused_and_resumed_all_the_same(name: TransportName, transport: Transport) -> None:
    async with client_of(name, transport, written(sized(TEXT))) as client:
        for _ in range(2):
            body, collected = await client.ask(), Collected()
            body.push(collected)
            await collected.done.wait()
            body.pause()
            body.resume()
            body.pause()
            await body.finish(1)
            assert collected.data == TEXT
        assert client.server.connections == 1


@pytest.mark.parametrize("paused", [False, True])
async def test_a_body_that_was_cut_can_be_paused_and_resumed_all_the_same(
    name: TransportName, transport: Transport, paused: bool
) -> None:
    collected = Collected()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunked(*PIECES)[:-5])
        await collected.begun.wait()
        writer.transport.abort()

    async with client_of(name, transport, answer) as client:
        body = await client.ask()
        body.push(collected)
        await collected.done.wait()
        if paused:
            body.pause()
        body.resume()
        body.pause()
        body.close()
        assert collected.data
        assert TEXT.startswith(collected.data)
        assert len(collected.ends) == 1


async def test_a_connection_is_kept_if_the_end_comes_soon(name: TransportName, transport: Transport) -> None:
    finishing = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        raw = CHUNKED + chunked(*PIECES)
        writer.write(raw[:-5])
        await finishing.wait()
        writer.write(raw[-5:])

    async with client_of(name, transport, answer) as client:
        for _ in range(3):
            finishing.clear()
            body, collected = await client.ask(), Collected()
            body.push(collected)
            await collected.begun.wait()
            asyncio.get_running_loop().call_soon(finishing.set)
            await body.finish(30)
            assert (collected.data, collected.ends) == (TEXT, [None])
        assert client.server.connections == 1


async def test_the_end_of_a_body_that_nobody_reads_is_not_waited_for() -> None:
    released = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        raw = CHUNKED + chunked(*PIECES)
        writer.write(raw[:-5])
        await released.wait()
        writer.write(raw[-5:])

    async with client_of("fast", choose("fast"), answer) as client:
        for _ in range(3):
            released.clear()
            body, collected = await client.ask(), Collected()
            body.push(collected)
            await collected.begun.wait()
            assert body.release(30)
            released.set()
            for _ in range(4):
                await read_by_others()
            assert collected.ends == []
        assert client.server.connections == 1


async def test_a_body_that_nobody_reads_is_closed_if_its_end_does_not_come() -> None:
    async with client_of("fast", choose("fast"), written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        assert body.release(0.01)
        await client.server.client_left.wait()
        assert collected.ends == []


async def test_a_connection_is_closed_if_the_end_does_not_come(name: TransportName, transport: Transport) -> None:
    async with client_of(name, transport, written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        await body.finish(0.01)
        await client.server.client_left.wait()
        assert len(collected.ends) == 1


async def test_a_connection_is_closed_if_waiting_for_the_end_is_cancelled(name: TransportName, transport: Transport) -> None:
    async with client_of(name, transport, written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        body.push(collected)
        await collected.begun.wait()
        finishing = asyncio.create_task(body.finish(600))
        await read_by_others()
        finishing.cancel()
        await asyncio.wait({finishing})
        await client.server.client_left.wait()
        assert len(collected.ends) == 1


async def test_a_cancelled_task_of_the_plain_transport_leaves_nothing() -> None:
    async with client_of("plain", choose("plain"), written(CHUNKED, chunked(*PIECES)[:-5])) as client:
        body, collected = await client.ask(), Collected()
        known = asyncio.all_tasks()
        body.push(collected)
        (pulling,) = asyncio.all_tasks() - known
        await collected.begun.wait()
        pulling.cancel()
        await collected.done.wait()
        await client.server.client_left.wait()
        assert [type(error) for error in collected.ends] == [aiohttp.ClientConnectionError]
