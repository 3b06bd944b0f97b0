"""PostgresSaver of LangGraph with a `DeltaChannel`, which is in beta, for `messages`.

A message is a write of a task (`put_writes`), and the checkpoint behind it (`put`) has no messages:
two commits, as in a graph that waits for its checkpoints. Every hundredth checkpoint has a snapshot
of all messages, as is the channel's default, so that loading reads one snapshot and at most 99 writes.
"""

import work
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph_postgres import Conversation, LangGraphPostgres

CHANNEL = "messages"
EVERY = 100
TASK = "00000000-0000-0000-0000-000000000000"


class DeltaConversation(Conversation):
    def __init__(self, name, longest):
        # Appending costs the same however long it is, snapshots aside.
        super().__init__(name, longest=None)
        self.writes = 0

    def open(self, saver):
        # A write belongs to the checkpoint before it.
        self.config = saver.put(*self.put())

    def put(self):
        config, checkpoint, metadata, versions = super().put()
        since = self.writes % EVERY
        snapshot = {CHANNEL: _DeltaSnapshot(self.messages)} if self.messages and not since else {}
        checkpoint["channel_values"] = snapshot
        metadata["counters_since_delta_snapshot"] = {CHANNEL: (since, since)}
        return config, checkpoint, metadata, versions

    def write(self, text):
        """The arguments of the `put_writes` of one message more."""
        self.say(text)
        self.writes += 1
        return self.config, [(CHANNEL, self.messages[-1:])], TASK

    def save(self, saver, text):
        saver.put_writes(*self.write(text))
        self.config = saver.put(*self.put())

    async def asave(self, saver, text):
        await saver.aput_writes(*self.write(text))
        self.config = await saver.aput(*self.put())


class LangGraphDelta(LangGraphPostgres):
    conversation = DeltaConversation

    def messages(self, saver, state):
        snapshot = state.checkpoint["channel_values"].get(CHANNEL)
        if snapshot is not None:
            return snapshot.value
        history = saver.get_delta_channel_history(config=state.config, channels=[CHANNEL])[CHANNEL]
        messages = list(history["seed"].value) if "seed" in history else []
        for _, _, written in history["writes"]:
            messages.extend(written)
        return messages


work.run(LangGraphDelta())
