"""DBOS: a workflow for each session, which writes its messages to a stream.

Of what DBOS has to record one more message, `write_stream` from within a step is the cheapest that
is durable and can be read back as a list: one transaction, which inserts the message and checks that
this process still owns the workflow. A step for each message, or `write_stream` from the workflow
itself, also looks for an earlier result and records its own, so that it happens once only if the
workflow is run again; `set_event` writes each message twice; what was given to `send` can only be
taken by `recv`, one at a time. The values are written as JSON, which is smaller than the pickles that
are the default.
"""

import importlib.metadata
import threading
import time

import psycopg
import work
from dbos import DBOS, DBOSClient, SetWorkflowID, WorkflowSerializationFormat

KEY = "messages"
# What the workflows of this process say, by their ids.
SESSIONS = {}


class Session:
    """What one workflow says, and when it begins and has ended."""

    def __init__(self, texts, start, end):
        self.texts, self.start, self.end, self.times = texts, start, end, []


@DBOS.step()
def say_all(name):
    session = SESSIONS[name]
    session.start.wait()
    for text in session.texts:
        start = time.perf_counter()
        DBOS.write_stream(KEY, text, serialization_type=WorkflowSerializationFormat.PORTABLE)
        session.times.append(time.perf_counter() - start)
    session.end.wait()


@DBOS.workflow()
def converse(name):
    say_all(name)


class DbosStream(work.Peer):
    def version(self):
        return importlib.metadata.version("dbos")

    def open(self, url, sessions=1):
        config = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
        # A thread and a connection for each session, and some for what runs beside them.
        config |= {"max_executor_threads": sessions + 8, "sys_db_pool_size": sessions + 8}
        DBOS(config=config)
        DBOS.launch()

    def setup(self, url):
        self.open(url)
        DBOS.destroy()

    def append(self, url, texts):
        return self.sessions(url, [texts])

    def sessions(self, url, batches):
        self.open(url, len(batches))
        start, end = (threading.Barrier(len(batches) + 1) for _ in range(2))
        handles = []
        for number, texts in enumerate(batches):
            name = "session" if len(batches) == 1 else f"session-{number}"
            SESSIONS[name] = Session(texts, start, end)
            with SetWorkflowID(name):
                handles.append(DBOS.start_workflow(converse, name))
        while start.n_waiting < len(batches):
            time.sleep(0.01)
        yield
        start.wait()
        end.wait()
        yield [taken for session in SESSIONS.values() for taken in session.times]
        for handle in handles:
            handle.get_result()
        DBOS.destroy()

    def build(self, url, texts):
        """There is no way to write many values at once: the others are copies of the row that the
        first one made. That they read as if they were written is seen when they are loaded.
        """
        for _ in self.append(url, texts[:1]):
            pass
        encoded = ((work.json.dumps(text), at) for at, text in enumerate(texts[1:], 1))
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.executemany(COPY, encoded)

    def load(self, url, count):
        # A client only: no workflows are looked for and run.
        client = DBOSClient(system_database_url=url)
        texts = list(client.read_stream("session", KEY))
        client.destroy()
        return texts


COPY = """
INSERT INTO dbos.streams (workflow_uuid, key, value, "offset", function_id, serialization)
SELECT workflow_uuid, key, %s, %s, function_id, serialization
FROM dbos.streams WHERE workflow_uuid = 'session' AND key = 'messages' AND "offset" = 0
"""


work.run(DbosStream())
