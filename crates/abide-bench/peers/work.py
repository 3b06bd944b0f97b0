"""The work that every peer does, and how it says what it took.

A peer is started as `python PEER.py OPERATION PLACE MESSAGES COUNT LAST [TURNS]`. PLACE is a directory,
or the URL of a database of its own; MESSAGES has one JSON string a line. The operations are `about`,
`append`, `load` and `last`, and `build` and `turns` for those that take turns. Those on a server have
`setup`, `grow` and `sessions` (with the number of sessions for LAST), too. The answer is one line of JSON.
The clock runs inside, from opening to the last message, and not while the interpreter starts.
After it has stopped, what was read is compared with what was written. What the device wrote during
appends is said, too, where the environment variable DEVICE_COUNTERS names its counters.
"""

import itertools
import json
import os
import platform
import statistics
import sys
import time


class Peer:
    """What each peer's file fills in. Texts go in and come out as `str`."""

    def version(self):
        """The version of the peer, for the table."""
        raise NotImplementedError

    def append(self, directory, texts):
        """Opens, appends the texts one at a time, each acknowledged, and closes.

        Whatever can be prepared before the first append is done before the `yield`, which starts
        the clock; a second `yield` stops it, before closing. That one may give the seconds that each
        append took.
        """
        raise NotImplementedError

    def setup(self, url):
        """Makes its tables."""
        raise NotImplementedError

    def grow(self, url, texts):
        """Appends to one session that grows by all the texts, as `append` does. For one whose appends
        cost more the longer a session is, and whose `append` therefore keeps sessions short.
        """
        return self.append(url, texts)

    def sessions(self, url, batches):
        """As `append`, for as many sessions at once as there are batches of texts."""
        raise NotImplementedError

    def load(self, directory, count):
        """Opens and returns every text."""
        raise NotImplementedError

    def last(self, directory, count, wanted):
        """Opens and returns the last `wanted` texts, oldest first."""
        raise NotImplementedError

    def build(self, directory, texts):
        """Makes a session with these texts, in one go."""
        raise NotImplementedError

    def turns(self, directory, limit):
        """Opens, and returns two functions and a third: `append(text)`, acknowledged when it
        returns; `context()`, which loads the last `limit` messages or all of them as they would be
        sent; and one that gives the texts of what that has returned, away from the clock.
        """
        raise NotImplementedError


def take_turns(peer, directory, messages, count, limit, turns):
    """Appends a message and loads the context, again and again."""
    with open(messages, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in itertools.islice(lines, count + turns)]
    append, context, read = peer.turns(directory, limit)
    whole, contexts = [], []
    for number in range(count, count + turns):
        start = time.perf_counter()
        append(texts[number])
        appended = time.perf_counter()
        loaded = context()
        end = time.perf_counter()
        whole.append((end - start) * 1000)
        contexts.append((end - appended) * 1000)
        expected = texts[: number + 1][-limit:]
        if read(loaded) != expected:
            sys.exit(f"a context that is not the {len(expected)} messages that were said")
    print(json.dumps({"ms": statistics.median(whole), "context_ms": statistics.median(contexts)}))


def device_counters():
    """Writes and sectors that the device has written so far, where that can be seen."""
    path = os.environ.get("DEVICE_COUNTERS")
    if not path:
        return None
    with open(path, encoding="ascii") as counters:
        fields = counters.read().split()
    return int(fields[4]), int(fields[6])


def run(peer):
    """Does what the command line says."""
    operation = sys.argv[1]
    if operation == "about":
        answer = {"version": peer.version(), "python": platform.python_version()}
        print(json.dumps(answer))
        return
    directory, messages = sys.argv[2:4]
    count, wanted = map(int, sys.argv[4:6])
    if operation == "turns":
        take_turns(peer, directory, messages, count, wanted, int(sys.argv[6]))
        return
    with open(messages, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in itertools.islice(lines, count)]
    answer = {}
    if operation == "build":
        start = time.perf_counter()
        peer.build(directory, texts)
        taken = time.perf_counter() - start
    elif operation == "setup":
        start = time.perf_counter()
        peer.setup(directory)
        taken = time.perf_counter() - start
    elif operation in ("append", "grow", "sessions"):
        if operation == "sessions":
            steps = peer.sessions(directory, [texts[first::wanted] for first in range(wanted)])
        else:
            steps = getattr(peer, operation)(directory, texts)
        next(steps)
        before = device_counters()
        start = time.perf_counter()
        each = next(steps)
        taken = time.perf_counter() - start
        if before:
            writes, sectors = (now - then for now, then in zip(device_counters(), before))
            answer["device"] = {"bytes": sectors * 512, "writes": writes}
        if each:
            answer["median_ms"] = statistics.median(each) * 1000
        for _ in steps:
            pass
    else:
        start = time.perf_counter()
        if operation == "load":
            read = peer.load(directory, count)
        else:
            read = peer.last(directory, count, wanted)
        taken = time.perf_counter() - start
        expected = texts if operation == "load" else texts[-wanted:]
        if read != expected:
            sys.exit(f"{len(read)} messages were read that are not the {len(expected)} written")
    print(json.dumps({"ms": taken * 1000} | answer))
