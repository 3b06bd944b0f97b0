"""The work that every peer does, and how it says what it took.

A peer is started as `python PEER.py OPERATION DIR MESSAGES COUNT LAST`. MESSAGES has one JSON
string a line. The operations are `about`, `append`, `load` and `last`; the answer is one line of JSON.
The clock runs inside, from opening to the last message, and not while the interpreter starts.
After it has stopped, what was read is compared with what was written.
"""

import itertools
import json
import platform
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
        the clock; a second `yield` stops it, before closing.
        """
        raise NotImplementedError

    def load(self, directory, count):
        """Opens and returns every text."""
        raise NotImplementedError

    def last(self, directory, count, wanted):
        """Opens and returns the last `wanted` texts, oldest first."""
        raise NotImplementedError


def run(peer):
    """Does what the command line says."""
    operation = sys.argv[1]
    if operation == "about":
        answer = {"version": peer.version(), "python": platform.python_version()}
        print(json.dumps(answer))
        return
    directory, messages = sys.argv[2:4]
    count, wanted = map(int, sys.argv[4:6])
    with open(messages, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in itertools.islice(lines, count)]
    if operation == "append":
        steps = peer.append(directory, texts)
        next(steps)
        start = time.perf_counter()
        next(steps)
        taken = time.perf_counter() - start
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
    print(json.dumps({"ms": taken * 1000}))
