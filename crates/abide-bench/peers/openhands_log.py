"""The event log of the OpenHands SDK on its LocalFileStore: a file for each event.

It syncs each file, and a marker with the length, before it renames them; the directory it leaves
to the file system.
"""

import importlib.metadata
import os

import work

# What it imports would fetch a price list, in a thread, and print a banner.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"

from openhands.sdk.conversation.event_store import EventLog
from openhands.sdk.event import MessageEvent
from openhands.sdk.io import LocalFileStore
from openhands.sdk.llm import Message, TextContent


class OpenHandsLog(work.Peer):
    def version(self):
        return importlib.metadata.version("openhands-sdk")

    def open(self, directory):
        return EventLog(LocalFileStore(directory))

    def append(self, directory, texts):
        log = self.open(directory)
        yield
        for text in texts:
            log.append(event_of(text))
        yield

    def load(self, directory, count):
        return [text_of(event) for event in self.open(directory)]

    def last(self, directory, count, wanted):
        return [text_of(event) for event in self.open(directory)[-wanted:]]

    def build(self, directory, texts):
        log = self.open(directory)
        for text in texts:
            log.append(event_of(text))

    def turns(self, directory, limit):
        log = self.open(directory)

        def append(text):
            log.append(event_of(text))

        return append, lambda: log[-limit:], lambda events: [text_of(event) for event in events]


def event_of(text):
    message = Message(role="assistant", content=[TextContent(text=text)])
    return MessageEvent(source="agent", llm_message=message)


def text_of(event):
    return event.llm_message.content[0].text


work.run(OpenHandsLog())
