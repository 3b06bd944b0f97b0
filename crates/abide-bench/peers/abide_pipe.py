"""abide as a Python program uses it: `abide record` on a pipe, `abide tail` to read.

The program is the one that the environment variable ABIDE names.
"""

import json
import os
import subprocess

import work

ABIDE = os.environ.get("ABIDE", "abide")
# `session.created`, `writer.opened` and `writer.closed` are events too.
OTHERS = 3


class AbidePipe(work.Peer):
    def version(self):
        output = subprocess.run([ABIDE, "--version"], check=True, capture_output=True, text=True)
        return output.stdout.split()[-1]

    def append(self, directory, texts):
        store = f"{directory}/.abide"
        subprocess.run([ABIDE, "init", "--store", store], check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen(
            [ABIDE, "record", "--store", store, "--key", "session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        yield
        for text in texts:
            event = {"kind": "message.added", "data": {"role": "assistant", "content": text}}
            process.stdin.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if "seq" not in answer:
                raise RuntimeError(answer)
        yield
        process.stdin.close()
        if process.wait() != 0:
            raise RuntimeError("abide record failed")

    def load(self, directory, count):
        output = subprocess.run(
            [ABIDE, "tail", "--store", f"{directory}/.abide", "--json", "-n", str(count + OTHERS)],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        events = (json.loads(line) for line in output.stdout.splitlines())
        return [
            event["data"]["content"] for event in events if event["kind"] == "message.added"
        ][-count:]

    def last(self, directory, count, wanted):
        return self.load(directory, wanted)


work.run(AbidePipe())
