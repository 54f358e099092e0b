"""A set of messages in one JetStream stream, by NATS's own client library, nats-py."""

import asyncio

import nats
from nats.errors import Error, ProtocolError
from nats.js.api import StreamConfig
from nats.js.errors import NoStreamResponseError, NotFoundError

from workloads.driven import Refused, set_kind
from workloads.local_address import LocalAddress

STREAM, SUBJECT = "KP", "kp.set"
STREAM_NOT_FOUND, NO_MESSAGE = 10059, 10037
AT_ONCE = 500
LONG_S = 60.0  # the harness's bound comes first
CONFIG = StreamConfig(STREAM, subjects=[SUBJECT], num_replicas=3, discard="new")


class Stream:
    """One connection to one node, which ends for good with whatever fails: nothing is repeated."""

    def __init__(self, address):
        self._address, self._end = address, asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, context, node):
        stream = cls(await LocalAddress.open(context, node))
        try:
            await stream._connect()
        except BaseException:
            stream.close()
            raise
        return stream

    async def _connect(self):
        self._client = nats.NATS()
        server = f"nats://{self._address.host}:{self._address.port}"
        cb = {"closed_cb": self._note_end, "error_cb": self._note_error}
        await self._ask(self._client.connect(server, allow_reconnect=False, **cb))
        self._api = self._client.jetstream(timeout=LONG_S)

    async def _note_error(self, error):
        pass  # the end has it

    async def _note_end(self):
        if not self._end.done():
            self._end.set_result(None)

    async def _ask(self, coroutine, expected=()):
        """Wait for an answer, or the connection's end, which the library keeps from a request."""
        asking = asyncio.ensure_future(coroutine)
        try:
            await asyncio.wait((asking, self._end), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise self._client.last_error or EOFError
            return asking.result()
        except expected:
            raise
        except Error as error:
            is_garbage = isinstance(self._client.last_error, ProtocolError)
            raise (ValueError if is_garbage else ConnectionError)(str(error)) from error
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from error
        finally:
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
            asking.cancel()

    async def add(self, element):
        try:
            await self._ask(self._api.publish(SUBJECT, element.encode()), NoStreamResponseError)
        except NoStreamResponseError:
            raise Refused("nobody leads the stream") from None

    async def all(self):
        """The stream's leader answers, whichever node is asked; the first to ask makes it."""
        try:
            info = await self._ask(self._api.stream_info(STREAM), NotFoundError)
        except NotFoundError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise ConnectionError(str(error)) from error
            info = await self._ask(self._api.add_stream(CONFIG))
        state, found = info.state, []
        numbers = range(state.first_seq, state.last_seq + 1) if state.messages else ()
        for begin in range(0, len(numbers), AT_ONCE):
            found += await self._ask(self._messages(numbers[begin : begin + AT_ONCE]))
        return [each for each in found if each is not None]

    async def _messages(self, numbers):
        return await asyncio.gather(*map(self._message, numbers))

    async def _message(self, number):
        try:
            return (await self._api.get_msg(STREAM, number)).data.decode()
        except NotFoundError as error:
            if error.err_code == NO_MESSAGE:
                return None
            raise ConnectionError(str(error)) from error

    def close(self):
        self._address.close()  # so the library closes its end


SET = set_kind(
    "nats-set", "unique messages published to one stream, all there in the end", Stream.open
)
