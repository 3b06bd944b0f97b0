"""Stands between a client and an agent and writes down every line: `relay.py PREFIX COMMAND…`.

What the client sends goes to PREFIX.in, what the agent sends to PREFIX.out, byte for byte and
before it is passed on; what the agent says on stderr goes to PREFIX.err.
"""

import subprocess
import sys
import threading


def pass_on(source, target, log):
    for line in iter(source.readline, b""):
        log.write(line)
        log.flush()
        try:
            target.write(line)
            target.flush()
        except BrokenPipeError:
            break
    try:
        target.close()
    except BrokenPipeError:
        pass


def main():
    prefix, command = sys.argv[1], sys.argv[2:]
    with open(prefix + ".in", "wb") as to_agent, open(prefix + ".out", "wb") as to_client:
        with open(prefix + ".err", "wb") as errors:
            agent = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        sent = (sys.stdin.buffer, agent.stdin, to_agent)
        # A client that stays does not keep this alive when the agent is gone.
        threading.Thread(target=pass_on, args=sent, daemon=True).start()
        pass_on(agent.stdout, sys.stdout.buffer, to_client)
        code = agent.wait()
    # Without the threads: one may wait for the client for ever.
    import os

    os._exit(code if code >= 0 else 1)


main()
