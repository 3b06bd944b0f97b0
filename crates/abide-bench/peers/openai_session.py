"""SQLiteSession of the OpenAI Agents SDK, as its runner uses it: add_items and get_items."""

import asyncio
import importlib.metadata

import agents.memory
import work


class OpenAiAgents(work.Peer):
    def version(self):
        return importlib.metadata.version("openai-agents")

    def open(self, directory):
        return agents.memory.SQLiteSession("session", f"{directory}/session.db")

    def append(self, directory, texts):
        # One event loop over the two yields: the session keeps connections by thread.
        loop = asyncio.new_event_loop()
        session = self.open(directory)

        async def add_all():
            for text in texts:
                await session.add_items([{"role": "assistant", "content": text}])

        yield
        loop.run_until_complete(add_all())
        yield
        session.close()
        loop.close()

    def read(self, directory, limit):
        items = asyncio.run(self.open(directory).get_items(limit))
        return [item["content"] for item in items]

    def load(self, directory, count):
        return self.read(directory, None)

    def last(self, directory, count, wanted):
        return self.read(directory, wanted)

    def build(self, directory, texts):
        session = self.open(directory)
        items = [{"role": "assistant", "content": text} for text in texts]
        asyncio.run(session.add_items(items))
        session.close()

    def turns(self, directory, limit):
        loop = asyncio.new_event_loop()
        session = self.open(directory)
        # SQLite takes no larger number; whoever wants all of them gives none.
        limit = limit if limit < 1 << 31 else None

        def append(text):
            loop.run_until_complete(session.add_items([{"role": "assistant", "content": text}]))

        def context():
            return loop.run_until_complete(session.get_items(limit))

        return append, context, lambda items: [item["content"] for item in items]


work.run(OpenAiAgents())
