"""SqliteSaver of LangGraph: a checkpoint of the growing `messages` channel after each message.

A graph stores more than this: also the writes of its tasks (`put_writes`), and a checkpoint of its
own for each input. One `put` a message is the least that keeps every message.
"""

import importlib.metadata

import work
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

CONFIG = {"configurable": {"thread_id": "session", "checkpoint_ns": ""}}


class LangGraphSaver(work.Peer):
    def version(self):
        return importlib.metadata.version("langgraph-checkpoint-sqlite")

    def open(self, directory):
        return SqliteSaver.from_conn_string(f"{directory}/checkpoints.db")

    def append(self, directory, texts):
        with self.open(directory) as saver:
            saver.setup()
            yield
            config, messages = CONFIG, []
            for text in texts:
                messages.append(AIMessage(text, id=str(len(messages))))
                config = put(saver, config, messages)
            yield

    def load(self, directory, count):
        with self.open(directory) as saver:
            state = saver.get_tuple(CONFIG)
        return [message.content for message in state.checkpoint["channel_values"]["messages"]]

    def last(self, directory, count, wanted):
        return self.load(directory, count)[-wanted:]

    def build(self, directory, texts):
        with self.open(directory) as saver:
            saver.setup()
            put(saver, CONFIG, [AIMessage(text, id=str(at)) for at, text in enumerate(texts)])

    def turns(self, directory, limit):
        # Kept open until the process ends.
        self.kept = self.open(directory)
        saver = self.kept.__enter__()
        state = saver.get_tuple(CONFIG)

        def append(text):
            messages = state.checkpoint["channel_values"]["messages"]
            messages.append(AIMessage(text, id=str(len(messages))))
            put(saver, state.config, messages)

        def context():
            nonlocal state
            state = saver.get_tuple(CONFIG)
            return state.checkpoint["channel_values"]["messages"]

        return append, context, lambda messages: [message.content for message in messages]


def put(saver, config, messages):
    """Saves a checkpoint with these messages; gives the configuration of the next one."""
    step = len(messages) - 1
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6(clock_seq=step))
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": step + 1}
    metadata = {"source": "loop", "step": step, "parents": {}}
    return saver.put(config, checkpoint, metadata, {"messages": step + 1})


work.run(LangGraphSaver())
