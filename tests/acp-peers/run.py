"""Runs every client with every agent, directly and through `abide acp`, and compares all lines.

Called by scripts/acp-peers, which says by the environment where things are. One line a pairing;
exit code 1 when anything differs.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ["ACP_PEERS_PYTHON"]
EXAMPLES = os.environ["ACP_PEERS_EXAMPLES"]
SCRATCH = os.environ["ACP_PEERS_SCRATCH"]
NODE = os.environ.get("ACP_PEERS_NODE")
ABIDE = os.environ["ABIDE"]
STUB = os.environ["STUB_AGENT"]

# What abide adds to what an agent says of itself. Nothing else may differ.
ADDED = ["close", "delete", "fork", "list", "resume"]

# What differs between two runs without abide as well, by the name of its field.
FIELDS = ["sessionId"]

TEXTS = [
    [{"type": "text", "text": "Hello, agent."}],
    [
        {"type": "text", "text": "Zwei Blöcke: é, 日本, \u2028 and \"quotes\"\n"},
        {"type": "resource_link", "name": "a.txt", "uri": "file:///a.txt"},
    ],
    [{"type": "text", "text": "a longer text, " * 400}],
]
SCRIPTS = [
    "think first; say hello; tool build; tool-open left; plan one|>two|=three; mode code; title T",
    "ask; read a.txt; write b.txt some text; terminal echo out; usage; custom",
    "chunks 50 500; tool again; say the end",
    "Nothing but a text: it comes back in chunks, é and 日本 and all.",
]

PY_CLIENT = ("python client", [PYTHON, os.path.join(HERE, "client.py")])
NODE_CLIENT = ("node client", ["node", os.path.join(HERE, "client.mjs")])
AGENTS = [
    ("python echo_agent", [PYTHON, os.path.join(EXAMPLES, "echo_agent.py")], TEXTS),
    ("python agent", [PYTHON, os.path.join(EXAMPLES, "agent.py")], TEXTS),
    ("stub-agent", [STUB], [[{"type": "text", "text": script}] for script in SCRIPTS]),
]
NODE_AGENT = ("node agent", ["node", os.path.join(HERE, "agent.mjs")], TEXTS)


class Differs(Exception):
    """What was found, in words."""


def lines(path):
    with open(path, "rb") as file:
        data = file.read()
    if data and not data.endswith(b"\n"):
        raise Differs(f"{os.path.basename(path)} ends within a line")
    return data.split(b"\n")[:-1]


def alike(line):
    """A line without the values that differ in every run."""
    for field in FIELDS:
        line = re.sub(rb'("%s"\s*:\s*)"[^"]*"' % field.encode(), rb'\1"-"', line)
    return line


def same(what, one, two):
    for number, (left, right) in enumerate(zip(one, two)):
        if left != right:
            raise Differs(f"{what}, line {number + 1}:\n    {left[:600]!r}\n    {right[:600]!r}")
    if len(one) != len(two):
        longer = one if len(one) > len(two) else two
        extra = longer[min(len(one), len(two))]
        raise Differs(f"{what}: {len(one)} lines and {len(two)}, such as {extra[:300]!r}")


def introduction(agents, clients):
    """The answer to `initialize`: as the agent gave it, and as the client got it."""
    wanted = json.loads(agents)
    capabilities = wanted["result"].get("agentCapabilities") or {}
    wanted["result"]["agentCapabilities"] = capabilities
    capabilities["loadSession"] = True
    sessions = capabilities.get("sessionCapabilities") or {}
    capabilities["sessionCapabilities"] = sessions
    for name in ADDED:
        if sessions.get(name) is None:
            sessions[name] = {}
    got = json.loads(clients)
    if got != wanted:
        raise Differs(f"the introduction:\n    {json.dumps(got)}\n    {json.dumps(wanted)}")


def conversation(updates):
    """Who said what, texts put together, and the calls with what came of them."""
    told = []
    for entry in updates:
        update = entry["update"]
        sort = update["sessionUpdate"]
        if sort in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
            content = update["content"]
            text = content.get("text")
            if text is not None and told and told[-1][0] == sort and told[-1][1] is not None:
                told[-1][1] += text
            else:
                told.append([sort, text, None if text is not None else content.get("uri")])
        elif sort == "tool_call":
            told.append(["call", update["toolCallId"], None])
        if sort in ("tool_call", "tool_call_update") and update.get("status") == "completed":
            told.append(["ended", update["toolCallId"], json.dumps(update.get("content"), sort_keys=True)])
    return told


def run(client, plan, report, command):
    plan_path = report + ".plan"
    with open(plan_path, "w") as file:
        json.dump(plan, file)
    with open(report + ".err", "wb") as errors:
        done = subprocess.run(
            client + [plan_path, report] + command, stdout=errors, stderr=errors, timeout=120
        )
    if done.returncode != 0:
        with open(report + ".err", "rb") as file:
            said = file.read().decode(errors="replace")
        raise Differs(f"the client failed with {done.returncode}: {said[-1500:]}")
    with open(report) as file:
        return json.load(file)


def pairing(client, agent):
    (client_name, client_command), (agent_name, agent_command, prompts) = client, agent
    name = f"{client_name} with {agent_name}"
    where = os.path.join(SCRATCH, re.sub(r"\W+", "-", name))
    os.makedirs(os.path.join(where, "project"))
    path = lambda part: os.path.join(where, part)
    relay = lambda prefix: [PYTHON, "-S", os.path.join(HERE, "relay.py"), path(prefix)]
    plan = {"cwd": path("project"), "prompts": prompts, "load": None}

    def directly(prefix):
        run(client_command, plan, path(prefix + ".report"), relay(prefix) + agent_command)
        return {direction: lines(path(prefix + direction)) for direction in (".in", ".out")}

    direct = directly("direct")
    subprocess.run([ABIDE, "init", "--store", path("store")], check=True, stdout=subprocess.DEVNULL)
    abide = [ABIDE, "acp", "--store", path("store"), "--"]
    through = relay("outer") + abide + relay("inner") + agent_command
    report = run(client_command, plan, path("through.report"), through)

    log = {part: lines(path(part)) for part in ("outer.in", "outer.out", "inner.in", "inner.out")}
    same("what the agent heard", log["outer.in"], log["inner.in"])
    answer = next(at for at, line in enumerate(log["inner.out"]) if b'"protocolVersion"' in line)
    introduction(log["inner.out"][answer], log["outer.out"][answer])
    received = log["outer.out"][:answer] + log["outer.out"][answer + 1 :]
    same("what the client heard", received, log["inner.out"][:answer] + log["inner.out"][answer + 1 :])
    try:
        for direction in (".in", ".out"):
            # The answer to `initialize` is the agent's here; the client's was looked at above.
            passed = log["inner" + direction]
            same(f"directly and through abide{direction}",
                 [alike(line) for line in direct[direction]], [alike(line) for line in passed])
    except Differs:
        # Is it abide, or do two runs without it differ as well?
        again = directly("again")
        for direction in (".in", ".out"):
            same(f"two runs without abide{direction}",
                 [alike(line) for line in direct[direction]], [alike(line) for line in again[direction]])
        raise

    # Loaded through abide: what was said, as this client reads it.
    told = []
    said = split_by_turns(log["outer.in"], received, report)
    for prompt, updates in zip(prompts, said):
        blocks = [{"update": {"sessionUpdate": "user_message_chunk", "content": block}} for block in prompt]
        told += conversation(blocks) + conversation(updates)
    plan = {"cwd": path("project"), "prompts": [[{"type": "text", "text": "say again"}]],
            "load": report["session"]}
    command = relay("load-outer") + abide + relay("load-inner") + agent_command
    loaded = run(client_command, plan, path("load.report"), command)
    replayed = conversation(loaded["updates"][: loaded["loaded"]])
    same("what is loaded", [json.dumps(entry) for entry in replayed], [json.dumps(entry) for entry in told])
    if "result" not in loaded["answers"][0]:
        raise Differs(f"the prompt after the load: {loaded['answers'][0]}")
    if {entry["session"] for entry in loaded["updates"]} != {report["session"]}:
        raise Differs("updates of another session came")
    return len(log["outer.in"]) + len(log["outer.out"]), len(told)


def split_by_turns(sent, received, report):
    """The client's updates, by the prompt they answer. Those it could not read are left out, as the
    client left them out."""
    prompts = [json.loads(line)["id"] for line in sent if b'"session/prompt"' in line]
    turns, updates, calls, known = [], [], set(), iter(report["updates"])
    current = next(known, None)
    for line in received:
        message = json.loads(line)
        if message.get("method") == "session/update":
            sort = message["params"]["update"]["sessionUpdate"]
            if current is not None and current["update"]["sessionUpdate"] == sort:
                updates.append(current)
                calls.add(current["update"].get("toolCallId"))
                current = next(known, None)
        elif message.get("method") == "session/request_permission":
            # A question about a call that was not told of before tells of it.
            call = message["params"]["toolCall"]["toolCallId"]
            if call not in calls:
                updates.append({"update": {"sessionUpdate": "tool_call", "toolCallId": call}})
                calls.add(call)
        elif "method" not in message and message.get("id") in prompts:
            turns.append(updates)
            updates = []
    if current is not None:
        raise Differs(f"the client tells an update that did not come: {json.dumps(current)[:300]}")
    return turns


def main():
    clients, agents = [PY_CLIENT], list(AGENTS)
    if NODE:
        clients.append(NODE_CLIENT)
        agents.append(NODE_AGENT)
    pairs = [(client, agent) for client in clients for agent in agents]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=int(os.environ.get("ACP_PEERS_JOBS", "2"))) as pool:
        started = time.monotonic()
        running = [(client[0], agent[0], pool.submit(pairing, client, agent)) for client, agent in pairs]
        for client, agent, future in running:
            name = f"{client} with {agent}"
            try:
                exchanged, told = future.result()
                print(f"{name}: {exchanged} lines the same, {told} things loaded again", flush=True)
            except (Differs, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"{name}: DIFFERS: {error}", flush=True)
    print(f"{len(pairs) - failed} of {len(pairs)} pairings the same, {time.monotonic() - started:.1f} s")
    sys.exit(1 if failed else 0)


main()
