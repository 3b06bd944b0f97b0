"""A file of JSON lines, with an fdatasync after each: what the disk allows, from Python."""

import json
import os

import work


class Raw(work.Peer):
    def version(self):
        return None

    def append(self, directory, texts):
        file = os.open(f"{directory}/raw.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        yield
        for text in texts:
            os.write(file, (json.dumps(text, ensure_ascii=False) + "\n").encode())
            os.fdatasync(file)
        yield
        os.close(file)

    def load(self, directory, count):
        with open(f"{directory}/raw.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def last(self, directory, count, wanted):
        with open(f"{directory}/raw.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines.readlines()[-wanted:]]


work.run(Raw())
