"""The story of every sample: what the model does with each agent, and the project it does it in.

The story is one; `TOOLS` says how each agent calls the tool for a step. A step that an agent has
no tool for is left out.
"""

import struct
import subprocess
import zlib

from model import Call, Say, Think, Turn

PROMPT = """Please make every greeting end with an exclamation mark, 谢谢 🙏

- run `check.sh` before and after
- look at the logo, and count the names that we greet"""
SUBPROMPT = "Count the names in data/names.txt and tell me how many there are."
SECOND_PROMPT = "Greet in Japanese (日本語) and Korean (한국어) too 🎉 and write down what changed."

README = "# Greetings\n\nGreets people in *their* language.\n\n    python3 greet.py de Ada\n"
GREET = '''"""Greets people in their language."""

import sys

GREETINGS = {
    "de": "Hallo",
    "en": "Hello",
    "fr": "Bonjour",
}


def greet(name, language):
    return f"{GREETINGS[language]}, {name}"


if __name__ == "__main__":
    language, name = (sys.argv[1:] + ["en", "Ada"])[:2]
    print(greet(name, language))
'''
CHECK = '''#!/bin/sh
# Fails where a greeting does not end with an exclamation mark.
greeting=$(python3 greet.py en Ada)
case $greeting in
*!) echo "ok: $greeting" ;;
*) echo "not ok: '$greeting' ends without an exclamation mark" >&2; exit 3 ;;
esac
'''
NAMES = "Ada\nGrace\n小林\n김민수\nZoë 🌱\n"
TEST = '''import unittest

from greet import GREETINGS, greet


class Greeting(unittest.TestCase):
    def test_ends_with_an_exclamation_mark(self):
        for language in GREETINGS:
            self.assertTrue(greet("小林 <b>&amp;</b>", language).endswith("!"), language)
'''
CHANGES = """# Changes

1. Every greeting ends with `!`.
2. New languages: **ja** and **ko**.

| Code | Greeting |
| --- | --- |
| ja | こんにちは |
| ko | 안녕하세요 |
"""
LAST = """## Done ✅

Every greeting ends with an exclamation mark now:

| Step | Before | After |
| --- | --- | --- |
| `check.sh` | exit code 3 | **ok** |
| names | 5 | 5 (小林 and 김민수 among them) |

```python
def greet(name, language):
    return f"{GREETINGS[language]}, {name}!"
```

1. The logo is a *green square*.
2. There is a test in `test_greet.py`.
   - It covers all languages.

> What is left: Japanese and Korean."""
SECOND_LAST = """### 日本語 and 한국어

Both are there; see [CHANGES.md](CHANGES.md).

```console
$ python3 greet.py ja 小林
こんにちは, 小林!
```

- [x] Japanese 🇯🇵
- [x] Korean 🇰🇷"""


def story(tools):
    """The turns of a session; those of subagents come after the one that starts them."""
    def todo(*statuses):
        entries = ["Look at the project", "Fix the greeting 🔧", "Check it: 検証"]
        return tools.todo(list(zip(entries, statuses)))

    first = [
        [Think("Every greeting must end with `!`. 首先 look at what is there, then run the check."),
         Say("I will look at the project first. 👀"),
         todo("in_progress", "pending", "pending")],
        [Say("Two things at once:"), tools.read("README.md"), tools.glob("**/*.py")],
        [tools.read("greet.py")],
        [tools.shell("sh check.sh", "Run the check", exit=3)],
        [Think("It fails as expected, with exit code 3."), tools.grep("GREETINGS")],
        [todo("completed", "in_progress", "pending"),
         tools.edit("greet.py", '    return f"{GREETINGS[language]}, {name}"',
                    '    return f"{GREETINGS[language]}, {name}!"')],
        [tools.shell("sh check.sh", "Run the check again")],
        [tools.shell("seq -f 'greeting %g of 400: Hello, Ada!' 400", "Greet four hundred times")],
        [Say("Now the logo and the names."), tools.picture("logo.png")],
        [tools.subagent("Count names", SUBPROMPT)],
        [tools.words({"word": "hello", "language": "ja",
                      "options": {"formal": True, "scripts": ["hiragana", "kanji"]}})],
        [tools.read("missing.txt", fails=True)],
        [tools.write("test_greet.py", TEST)],
        [tools.shell("python3 -B -m unittest test_greet 2>&1 | tail -1\ngit status --short",
                     "Run the tests and see what changed"),
         todo("completed", "completed", "completed")],
        [Think("All done; a table sums it up."), Say(LAST)],
    ]
    second = [
        [Think("Two more entries in the dictionary. 日本語と韓国語。"),
         tools.edit("greet.py", '    "fr": "Bonjour",\n',
                    '    "fr": "Bonjour",\n    "ja": "こんにちは",\n    "ko": "안녕하세요",\n')],
        [tools.shell("for language in ja ko; do\n  python3 greet.py $language 小林\ndone\n"
                     "printf '\\033[32m%s\\033[0m\\n' 'all green 🟢'", "Greet in both")],
        [tools.write("CHANGES.md", CHANGES)],
        [Say(SECOND_LAST)],
    ]
    turns = [Turn(PROMPT, present(first))]
    if tools.subagent("", ""):
        turns.append(Turn(SUBPROMPT, present([
            [Think("A line for each name."), tools.shell("wc -l < data/names.txt", "Count lines")],
            [tools.grep("[^a-zA-Z]")],
            [Say("There are **5** names, two of them in CJK (小林, 김민수).")],
        ]), subagent=True))
    return turns + [Turn(SECOND_PROMPT, present(second))]


def present(answers):
    """Without the calls that an agent has no tool for, and answers that had nothing else."""
    answers = [[piece for piece in answer if piece] for answer in answers]
    *early, last = answers
    return [answer for answer in early if any(isinstance(piece, Call) for piece in answer)] + [last]


# How each agent calls a tool -------------------------------------------------------------------


class Tools:
    """The verbs of the story. Each gives a call, or None where the agent has no such tool."""

    def __init__(self, project):
        self.project = project

    def path(self, name):
        return str(self.project / name)

    def none(self, *_, **__):
        return None

    read = glob = grep = edit = write = picture = subagent = words = todo = none


class ClaudeTools(Tools):
    def shell(self, command, why, exit=0):
        return Call("Bash", {"command": command, "description": why}, exit=exit)

    def read(self, name, fails=False):
        return Call("Read", {"file_path": self.path(name)}, fails=fails)

    def picture(self, name):
        return Call("Read", {"file_path": self.path(name)}, image=True)

    def glob(self, pattern):
        return Call("Glob", {"pattern": pattern})

    def grep(self, pattern):
        return Call("Grep", {"pattern": pattern, "output_mode": "content"})

    def edit(self, name, old, new):
        return Call("Edit", {"file_path": self.path(name), "old_string": old, "new_string": new})

    def write(self, name, text):
        return Call("Write", {"file_path": self.path(name), "content": text})

    def todo(self, entries):
        return Call("TodoWrite", {"todos": [
            {"content": text, "status": status, "activeForm": text} for text, status in entries]})

    def subagent(self, title, prompt):
        return Call("Agent", {"description": title, "prompt": prompt,
                              "subagent_type": "general-purpose", "run_in_background": False})

    def words(self, arguments):
        return Call("mcp__words__translate", arguments)


class CodexTools(Tools):
    def shell(self, command, why, exit=0):
        return Call("exec_command", {"cmd": command}, exit=exit)

    def read(self, name, fails=False):
        return self.shell(f"sed -n '1,200p' {name}", "", exit=2 if fails else 0)

    def glob(self, pattern):
        return self.shell("rg --files -g '*.py' 2>/dev/null || git ls-files '*.py'", "")

    def grep(self, pattern):
        return self.shell(f"grep -rn '{pattern}' --include=*.py .", "")

    def patch(self, text):
        return Call("apply_patch", f"*** Begin Patch\n{text}*** End Patch\n", free=True)

    def edit(self, name, old, new):
        lines = [f"-{line}\n" for line in old.splitlines()]
        lines += [f"+{line}\n" for line in new.splitlines()]
        return self.patch(f"*** Update File: {name}\n@@\n{''.join(lines)}")

    def write(self, name, text):
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        return self.patch(f"*** Add File: {name}\n{lines}")

    def picture(self, name):
        return Call("view_image", {"path": self.path(name)}, image=True)

    def words(self, arguments):
        return Call("mcp__words::translate", arguments)

    def todo(self, entries):
        return Call("update_plan", {"plan": [
            {"step": text, "status": status} for text, status in entries]})


class GeminiTools(Tools):
    def shell(self, command, why, exit=0):
        return Call("run_shell_command", {"command": command, "description": why}, exit=exit)

    def read(self, name, fails=False):
        return Call("read_file", {"file_path": self.path(name)}, fails=fails)

    def picture(self, name):
        return Call("read_file", {"file_path": self.path(name)}, image=True)

    def glob(self, pattern):
        return Call("glob", {"pattern": pattern})

    def grep(self, pattern):
        return Call("grep_search", {"pattern": pattern})

    def edit(self, name, old, new):
        return Call("replace", {"file_path": self.path(name), "instruction": "Change the greeting",
                                "old_string": old, "new_string": new})

    def write(self, name, text):
        return Call("write_file", {"file_path": self.path(name), "content": text})

    def todo(self, entries):
        return Call("write_todos", {"todos": [
            {"description": text, "status": status} for text, status in entries]})

    def words(self, arguments):
        return Call("mcp_words_translate", arguments)


class OpencodeTools(Tools):
    def shell(self, command, why, exit=0):
        return Call("bash", {"command": command, "description": why}, exit=exit)

    def read(self, name, fails=False):
        return Call("read", {"filePath": self.path(name)}, fails=fails)

    def picture(self, name):
        return Call("read", {"filePath": self.path(name)}, image=True)

    def glob(self, pattern):
        return Call("glob", {"pattern": pattern})

    def grep(self, pattern):
        return Call("grep", {"pattern": pattern})

    def edit(self, name, old, new):
        return Call("edit", {"filePath": self.path(name), "oldString": old, "newString": new})

    def write(self, name, text):
        return Call("write", {"filePath": self.path(name), "content": text})

    def todo(self, entries):
        return Call("todowrite", {"todos": [
            {"content": text, "status": status, "priority": "high"} for text, status in entries]})

    def subagent(self, title, prompt):
        return Call("task", {"description": title, "prompt": prompt, "subagent_type": "general"})

    def words(self, arguments):
        return Call("words_translate", arguments)


class ClineTools(Tools):
    def shell(self, command, why, exit=0):
        return Call("run_commands", {"commands": [command]}, exit=exit)

    def read(self, name, fails=False):
        return Call("read_files", {"files": [{"path": self.path(name)}]}, fails=fails)

    def picture(self, name):
        return Call("read_files", {"files": [{"path": self.path(name)}]}, image=True)

    def grep(self, pattern):
        return Call("search_codebase", {"queries": [pattern]})

    def edit(self, name, old, new):
        return Call("editor", {"path": self.path(name), "old_text": old, "new_text": new})

    def write(self, name, text):
        return Call("editor", {"path": self.path(name), "new_text": text})

    def subagent(self, title, prompt):
        return Call("spawn_agent", {"systemPrompt": "You count things.", "task": prompt})


TOOLS = {"claude": ClaudeTools, "cline": ClineTools, "codex": CodexTools, "gemini": GeminiTools,
         "opencode": OpencodeTools}


# The project -----------------------------------------------------------------------------------


def make_project(project):
    files = {"README.md": README, "greet.py": GREET, "check.sh": CHECK, "data/names.txt": NAMES}
    for name, text in files.items():
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (project / "logo.png").write_bytes(logo())
    for command in (["init", "--quiet", "-b", "main"], ["add", "."],
                    ["commit", "--quiet", "-m", "Greetings"]):
        subprocess.run(["git", "-C", str(project), "-c", "user.name=Ada",
                        "-c", "user.email=ada@example.com", *command], check=True)


def logo():
    """A green square as a PNG."""
    def chunk(kind, data):
        sum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum)

    row = b"\0" + bytes([46, 160, 67]) * 32
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(row * 32, 9)) + chunk(b"IEND", b""))
