"""A client of the Agent Client Protocol that kills a real agent, and the proxy before it.

    drive.py AGENT PREFIX ABIDE DIRECTORY

AGENT is `opencode` or `gemini`, installed by npm under PREFIX; ABIDE is the program `abide`; in
DIRECTORY all that is written goes. Each story begins with a prompt that is answered and one in
whose middle somebody is killed with SIGKILL: the tool has run, and half a sentence was streamed.

1. The agent is killed. The prompt fails with a clear error, and the next one in the same session
   is answered by an agent that knows what was said before.
2. The agent is killed, and loses the sessions that it keeps itself.
3. The proxy is killed. The client starts anew.

Each goes on with another proxy that loads the session: what it replays is the whole conversation
in its order, and the model is shown it with the next prompt.

`scripts/test-agents opencode-acp gemini-acp` runs it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from model import Model, Turn, said

PATIENCE = 240  # Seconds after which what was waited for is said to be missing.


class Failed(Exception):
    """Something is not as it must be."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def say(text):
    print(f"   {text}", flush=True)


# Agents ----------------------------------------------------------------------------------------


class Opencode:
    """How opencode is started, which tool of it runs commands, and how it finds the model."""

    command = ["opencode", "acp"]
    tool = ("bash", "command")
    memory = ".local/share/opencode"  # Where it keeps its sessions, in its home.
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                   "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_SHARE": "1"}

    def set_up(self, home, port):
        model = {"name": "stub", "tool_call": True, "limit": {"context": 100000, "output": 8000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "stub",
            "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"},
            "models": {"stub": model},
        }
        settings = {
            "model": "stub/stub",
            "small_model": "stub/stub",
            "autoupdate": False,
            "share": "disabled",
            "enabled_providers": ["stub"],
            "provider": {"stub": provider},
            "permission": {"bash": "ask"},
        }
        place = home / ".config/opencode/opencode.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(settings))
        return self.environment

    def grow_older(self, home):
        """Nothing of it depends on when a session was made."""


class Gemini:
    """The same of the Gemini CLI."""

    command = ["gemini", "--acp", "--model", "gemini-2.5-flash", "--skip-trust"]
    tool = ("run_shell_command", "command")
    memory = ".gemini/tmp"

    def set_up(self, home, port):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        place = home / ".gemini/settings.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(settings))
        return {"GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}", "GEMINI_API_KEY": "none"}

    def grow_older(self, home):
        """A session that it loads in the minute in which it was made it overwrites: its file is
        named for the minute. So the file gets the name of an earlier one."""
        yesterday = time.strftime("%Y-%m-%dT00-00", time.gmtime(time.time() - 24 * 60 * 60))
        for place in home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
            name = place.name.split("-")[-1]
            old = place.with_name(f"session-{yesterday}-{name}")
            if not old.exists():
                place.rename(old)


AGENTS = {"opencode": Opencode(), "gemini": Gemini()}


# The client ------------------------------------------------------------------------------------


class Client:
    """An editor: a proxy below it, what was sent to it, and what was answered."""

    def __init__(self, world, name):
        self.began = time.monotonic()
        world.clients.append(self)
        command = [world.abide, "acp", "--store", str(world.store), "--", *world.command]
        self.stderr = open(world.directory / f"{name}.log", "wb")
        self.wire = open(world.directory / f"{name}.wire", "w")
        self.process = subprocess.Popen(command, cwd=world.project, env=world.environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.stderr)
        self.changed = threading.Condition()
        self.updates, self.sessions, self.answers = [], set(), {}
        self.ended, self.last = False, 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            print(f"{time.monotonic() - self.began:6.2f} < {line.decode().rstrip()}", file=self.wire, flush=True)
            with self.changed:
                if "method" not in message:
                    self.answers[message["id"]] = message
                elif message["method"] == "session/update":
                    self.updates.append(message["params"]["update"])
                    self.sessions.add(message["params"]["sessionId"])
                elif "id" in message:
                    self.send(self.reply(message))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def reply(self, message):
        """Permission is given; nothing else is asked of a client that can do nothing."""
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] != "session/request_permission":
            return {**reply, "error": {"code": -32601, "message": "there is no such method"}}
        options = message["params"]["options"]
        option = next(option for option in options if option["kind"] == "allow_once")
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        return {**reply, "result": {"outcome": outcome}}

    def send(self, message):
        line = json.dumps(message)
        print(f"{time.monotonic() - self.began:6.2f} > {line}", file=self.wire, flush=True)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, what, holds, patience=PATIENCE):
        with self.changed:
            if not self.changed.wait_for(lambda: holds() or self.ended, patience):
                raise Failed(f"waited in vain for {what}")
            check(holds(), f"the proxy ended before {what}")

    def ask(self, method, params):
        """Asks, and gives the id of the request."""
        with self.changed:
            self.last += 1
            self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
            return self.last

    def answer(self, request, what):
        self.wait(what, lambda: request in self.answers)
        return self.answers[request]

    def call(self, method, params):
        answer = self.answer(self.ask(method, params), f"the answer to {method}")
        check("result" in answer, f"{method} was refused: {answer.get('error')}")
        return answer["result"]

    def initialize(self):
        return self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {},
                                        "clientInfo": {"name": "drive", "version": "1"}})

    def ask_prompt(self, session, text):
        blocks = [{"type": "text", "text": text}]
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks})

    def prompt(self, session, turn):
        """A prompt that must be answered whole. Gives the updates that came meanwhile."""
        start = len(self.updates)
        answer = self.answer(self.ask_prompt(session, turn.prompt), f"answer: {turn.prompt}")
        reason = answer.get("result", {}).get("stopReason")
        check(reason == "end_turn", f"`{turn.prompt}` was answered with {answer}")
        texts = spoken(self.updates[start:])
        for text in (turn.before, turn.answer):
            check(text in " ".join(texts), f"`{turn.prompt}` was answered with {texts}")

    def story(self):
        """All that it was shown."""
        return "\n".join(spoken(self.updates))

    def agent(self):
        """The processes of the agent: those below the proxy."""
        return below(self.process.pid)

    def end(self):
        """Closes the proxy's stdin, as an editor does that is closed."""
        self.process.stdin.close()
        check(self.process.wait(PATIENCE) == 0, f"the proxy ended with {self.process.returncode}")


def below(process):
    children = []
    for place in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children += [int(child) for child in place.read_text().split()]
        except OSError:
            pass  # It has just ended.
    return [one for child in children for one in (child, *below(child))]


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def spoken(updates):
    """What user and agent said, chunks joined, and the calls that ended, in order."""
    story, kind = [], None
    for update in updates:
        now = update["sessionUpdate"]
        if now in ("user_message_chunk", "agent_message_chunk"):
            text = update["content"].get("text", "")
            if now == kind:
                story[-1] += text
            else:
                story.append(text)
            kind = now
        elif now in ("tool_call", "tool_call_update"):
            kind = now
            if update.get("status") == "completed":
                story.append("<a tool has run>")
    return story


# The stories -----------------------------------------------------------------------------------


class World:
    """What a story needs: a home, a project, a store, a model, and how the agent is started."""

    def __init__(self, agent, prefix, abide, directory):
        self.abide, self.directory, self.clients = abide, directory, []
        self.home, self.project = directory / "home", directory / "project"
        self.store = directory / "store"
        for place in (self.home, self.project):
            place.mkdir(parents=True)
        self.turns = [Turn("Write the first line", "one"),
                      Turn("Write the second line", "two", held=True),
                      Turn("Write the third line", "three"),
                      Turn("Write the fourth line", "four")]
        self.agent = AGENTS[agent]
        self.model = Model(self.turns, self.agent.tool)
        program, *rest = self.agent.command
        self.command = [f"{prefix}/node_modules/.bin/{program}", *rest]
        added = self.agent.set_up(self.home, self.model.port)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("ABIDE_", "XDG_", "OPENCODE", "GEMINI_", "GOOGLE_"))}
        self.environment = {**kept, "HOME": str(self.home), **added}
        subprocess.run(["git", "init", "--quiet", self.project], check=True)
        subprocess.run([abide, "init", "--store", str(self.store)], check=True,
                       env=self.environment, stdout=subprocess.DEVNULL)

    def stop(self):
        """Nothing of a story outlives it, however it ended."""
        self.model.stop()
        for client in self.clients:
            if client.process.poll() is None:
                kill([*client.agent(), client.process.pid])
                client.process.wait()

    def run(self, *arguments):
        """What a command of abide prints about the one session of the store."""
        done = subprocess.run([self.abide, *arguments, "--store", str(self.store)],
                              capture_output=True, text=True, env=self.environment,
                              cwd=self.project, check=False)
        check(done.returncode == 0, f"abide {arguments} ended with {done.returncode}: "
              f"{done.stdout[-600:]} {done.stderr[-600:]}")
        return done.stdout

    def knows(self, since, texts):
        """The model was shown all of this, in this order, by a request since this one."""
        shown = self.model.asked(since)
        check(shown, "the model was asked nothing")
        lacking = in_order(shown[-1], texts)
        check(lacking is None, f"the model was not shown `{lacking}` in its place, but "
              f"{json.dumps(said(self.model.requests[-1]))[-3000:]}")


def in_order(text, parts):
    """The first of the parts that is not in the text behind the one before it."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def first_prompts(world, client):
    """A session with a prompt that is answered, and one of which half is. Gives both ids."""
    hello = client.initialize()
    say(f"capabilities: {json.dumps(hello['agentCapabilities'])}")
    made = client.call("session/new", {"cwd": str(world.project), "mcpServers": []})
    session = made["sessionId"]
    client.prompt(session, world.turns[0])
    start = len(client.updates)
    request = client.ask_prompt(session, world.turns[1].prompt)
    client.wait("half of the second answer",
                lambda: world.turns[1].half in " ".join(spoken(client.updates[start:])))
    check(request not in client.answers, "the second prompt was answered before its end")
    return session, request


def send_signal(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def kill(processes):
    send_signal(processes, signal.SIGKILL)


def kill_agent(world, client, request):
    """Kills the agent alone, in the middle of a prompt, which must fail for that."""
    doomed = client.agent()
    check(doomed, "there is no agent below the proxy")
    send_signal(doomed, signal.SIGSTOP)
    world.agent.grow_older(world.home)
    kill(doomed)
    world.model.go_on.set()
    answer = client.answer(request, "the answer to the prompt whose agent was killed")
    check("error" in answer, f"the prompt whose agent was killed was answered: {answer}")
    say(f"the prompt's error: {json.dumps(answer['error'])}")


RAN = "<a tool has run>"


def told(turn, answer):
    """A turn as it is replayed."""
    return [turn.prompt, turn.before, RAN, answer]


def agent_is_killed(world):
    """It is started anew in the same session, and the session is loaded afterwards."""
    one, two, three, four = world.turns
    client = Client(world, "first")
    session, request = first_prompts(world, client)
    kill_agent(world, client, request)
    since = len(world.model.requests)
    client.prompt(session, three)
    world.knows(since, [one.prompt, one.answer, two.prompt, three.prompt])
    client.end()
    world.agent.grow_older(world.home)

    # The half sentence was seen and is recorded; whether the agent replays it is its own affair.
    story = [*told(one, one.answer), *told(two, two.half), *told(three, three.answer)]
    sure = [text for text in story if text != two.half]
    load_again(world, session, "second", sure, four)
    examine(world, [*story, *told(four, four.answer)], ["one", "two", "three", "four"])


def agent_forgets(world):
    """It is loaded after it was killed, and once more when it has lost all of its sessions."""
    one, two, three, four = world.turns
    client = Client(world, "first")
    session, request = first_prompts(world, client)
    kill_agent(world, client, request)
    client.end()

    # What the agent does not replay of the end, abide does.
    story = [*told(one, one.answer), *told(two, two.half)]
    load_again(world, session, "second", story, three)
    shutil.rmtree(world.home / world.agent.memory)
    story += told(three, three.answer)
    load_again(world, session, "third", story, four)
    examine(world, [*story, *told(four, four.answer)], ["one", "two", "three", "four"])


def proxy_is_killed(world):
    """The client starts anew. Of a sentence that was not at its end nothing was acknowledged."""
    one, two, three, _ = world.turns
    client = Client(world, "first")
    session, _ = first_prompts(world, client)
    agent = client.agent()
    kill([client.process.pid])
    client.process.wait()
    end = time.monotonic() + 5
    while any(map(lives, agent)) and time.monotonic() < end:
        time.sleep(0.05)
    left = [process for process in agent if lives(process)]
    say(f"the agent outlives its proxy: {'yes' if left else 'no'}")
    kill(left)
    world.model.go_on.set()
    world.agent.grow_older(world.home)

    story = [*told(one, one.answer), two.prompt, two.before, RAN]
    load_again(world, session, "second", story, three)
    examine(world, [*story, *told(three, three.answer)], ["one", "two", "three"])


def load_again(world, session, name, story, turn):
    """Another proxy loads the session, is given the whole story, and prompts."""
    client = Client(world, name)
    client.initialize()
    client.call("session/load", {"sessionId": session, "cwd": str(world.project),
                                 "mcpServers": []})
    answered = len(client.updates)
    # An agent may answer before it has shown all; an editor takes what comes behind it as well.
    # Calls may stand elsewhere in an agent's own replay, but all of them are there.
    calls, story = story.count(RAN), [text for text in story if text != RAN]
    try:
        client.wait("the story", lambda: in_order(client.story(), story) is None, 20)
        client.wait("the calls", lambda: client.story().count(RAN) >= calls, 20)
    except Failed:
        lacking = in_order(client.story(), story) or RAN
        raise Failed(f"the replay lacks `{lacking}` in its place: {client.story()!r}") from None
    behind = len(client.updates) - answered
    say(f"{name} load: {answered} updates before the answer, {behind} or more behind it")

    since = len(world.model.requests)
    client.prompt(session, turn)
    for prompt in (text for text in story if text.startswith("Write")):
        check(client.story().count(prompt) == 1, f"`{prompt}` is shown more than once")
    check(client.sessions == {session}, f"there are updates of other sessions: {client.sessions}")
    # Of a sentence that was broken off the model need not know.
    sure = [text for text in story if text != world.turns[1].half]
    world.knows(since, [*sure, turn.prompt])
    client.end()
    notes = (world.directory / f"{name}.log").read_text().strip().splitlines()
    say(f"said on stderr: {json.dumps(notes[-6:])}")


def examine(world, story, lines):
    """All that was seen is recorded, in its order; the store is whole; each tool has run once."""
    story = [text for text in story if text != RAN]
    for arguments in (["show"], ["export", "--format", "transcript"]):
        lacking = in_order(world.run(*arguments), story)
        check(lacking is None, f"abide {arguments[0]} lacks `{lacking}` in its place")
    prompts = [text for text in story if text.startswith("Write")]
    recorded = [json.loads(line) for line in world.run("export").splitlines()]
    asked = [event["data"]["content"] for event in recorded
             if event["kind"] == "message.added" and event["data"].get("role") == "user"]
    asked = [text for text in map(json.dumps, asked) if any(one in text for one in prompts)]
    check(len(asked) == len(prompts), f"{len(prompts)} prompts were recorded as {asked}")
    world.run("doctor")
    written = (world.project / "out.txt").read_text().split()
    check(written == lines, f"the file should have {lines}, and has {written}")


def main():
    agent, prefix, abide, directory = sys.argv[1:]
    failed = 0
    for story in (agent_is_killed, agent_forgets, proxy_is_killed):
        began = time.monotonic()
        say(f"{story.__name__.replace('_', ' ')}")
        world = World(agent, prefix, abide, Path(directory).resolve() / story.__name__)
        try:
            story(world)
            say(f"passed in {time.monotonic() - began:.1f} s")
        except Failed as reason:
            failed = 1
            print(f"FAILED: {agent}-acp, {story.__name__.replace('_', ' ')}: {reason}",
                  file=sys.stderr)
        finally:
            world.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main())
