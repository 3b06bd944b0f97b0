"""PostgresSaver of LangGraph: a checkpoint of the growing `messages` channel after each message.

As with `langgraph_saver.py`, one `put` a message is the least that keeps every message. It is one
commit: the row of the checkpoint and the blob of the channel go out in one pipeline. The blob has
all messages so far, so that a `put` costs more the longer a session is. Appends are therefore
measured on short sessions, each of which is left for a new one at SHORT messages; only `grow`, for
the bytes on disk, stays with one.
"""

import asyncio
import importlib.metadata
import time
from contextlib import AsyncExitStack

import work
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

SHORT = 20


class Conversation:
    """A session, and how one message more is saved."""

    def __init__(self, name, longest):
        self.name, self.longest, self.number = name, longest, 0
        self.begin()

    def begin(self):
        thread = f"{self.name}-{self.number}"
        self.config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self.messages = []

    def open(self, saver):
        """Whatever must be there before the first message."""

    def say(self, text):
        if len(self.messages) == self.longest:
            self.number += 1
            self.begin()
        self.messages.append(AIMessage(text, id=str(len(self.messages))))

    def put(self):
        """The arguments of the `put` of all messages so far."""
        step = len(self.messages) - 1
        # As the saver's own `get_next_version` writes them.
        versions = {"messages": f"{step + 1:032}.0"}
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=step))
        checkpoint["channel_values"] = {"messages": self.messages}
        checkpoint["channel_versions"] = versions
        metadata = {"source": "loop", "step": step, "parents": {}}
        return self.config, checkpoint, metadata, versions

    def save(self, saver, text):
        self.say(text)
        self.config = saver.put(*self.put())

    async def asave(self, saver, text):
        self.say(text)
        self.config = await saver.aput(*self.put())


class LangGraphPostgres(work.Peer):
    conversation = Conversation

    def version(self):
        return importlib.metadata.version("langgraph-checkpoint-postgres")

    def open(self, url):
        return PostgresSaver.from_conn_string(url)

    def setup(self, url):
        with self.open(url) as saver:
            saver.setup()

    def append(self, url, texts, longest=SHORT):
        with PostgresSaver.from_conn_string(url, pipeline=True) as saver:
            conversation, times = self.conversation("session", longest), []
            conversation.open(saver)
            yield
            for text in texts:
                start = time.perf_counter()
                conversation.save(saver, text)
                times.append(time.perf_counter() - start)
            yield times

    def grow(self, url, texts):
        return self.append(url, texts, longest=len(texts))

    def sessions(self, url, batches):
        names = [f"session-{number}" for number in range(len(batches))]
        conversations = [self.conversation(name, SHORT) for name in names]
        with self.open(url) as saver:
            for conversation in conversations:
                conversation.open(saver)
        loop, stack, savers = asyncio.new_event_loop(), AsyncExitStack(), []

        async def connect():
            # A saver lets one call through at a time, whatever its pool: so one for each session.
            for _ in batches:
                opened = AsyncPostgresSaver.from_conn_string(url, pipeline=True)
                savers.append(await stack.enter_async_context(opened))

        async def say_all(conversation, saver, texts):
            for text in texts:
                await conversation.asave(saver, text)

        async def together():
            await asyncio.gather(*map(say_all, conversations, savers, batches))

        loop.run_until_complete(connect())
        yield
        loop.run_until_complete(together())
        yield
        loop.run_until_complete(stack.aclose())
        loop.close()

    def build(self, url, texts):
        conversation = self.conversation("session", len(texts))
        conversation.messages = [AIMessage(text, id=str(at)) for at, text in enumerate(texts)]
        # Not in pipeline mode, in which a blob of 50 MB was seen to wait for ever.
        with self.open(url) as saver:
            saver.put(*conversation.put())

    def load(self, url, count):
        with self.open(url) as saver:
            state = saver.get_tuple(self.conversation("session", count).config)
            messages = self.messages(saver, state)
        return [message.content for message in messages]

    def messages(self, saver, state):
        return state.checkpoint["channel_values"]["messages"]


if __name__ == "__main__":
    work.run(LangGraphPostgres())
