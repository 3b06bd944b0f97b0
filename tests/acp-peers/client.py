"""A client made with the Python package: `client.py PLAN REPORT COMMAND…`.

PLAN is JSON: {"cwd":…, "prompts":[[block,…],…], "load": ID or null}. Without `load` it makes a
session and prompts; with it, it loads that session and prompts then. REPORT gets what it saw through
the package: the introduction, the session, the updates, the answers.
"""

import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, Client, RequestError, spawn_agent_process
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
    TerminalOutputResponse,
    TextContentBlock,
    WaitForTerminalExitResponse,
)

BLOCKS = {"text": TextContentBlock, "resource_link": ResourceContentBlock}


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Peer(Client):
    def __init__(self):
        self.updates = []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        outcome = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        return ReadTextFileResponse(content="what the file holds\n")

    async def write_text_file(self, session_id, path, content, **kwargs):
        return None

    async def create_terminal(self, session_id, command, args=None, **kwargs):
        return CreateTerminalResponse(terminal_id="terminal-1")

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        return TerminalOutputResponse(output="out\n", truncated=False)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        return WaitForTerminalExitResponse(exit_code=0)

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        return None

    async def kill_terminal(self, session_id, terminal_id, **kwargs):
        return None

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append({"session": session_id, "update": dump(update)})

    async def ext_method(self, method, params):
        return {"custom": {"answer": 42}}

    async def ext_notification(self, method, params):
        return None


async def attempt(request):
    try:
        result = await request
        return {"result": dump(result) if hasattr(result, "model_dump") else result}
    except RequestError as error:
        return {"error": {"code": error.code, "message": str(error)}}


async def main():
    plan_path, report_path, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(plan_path) as file:
        plan = json.load(file)
    peer = Peer()
    answers = []
    whole = {"env": dict(os.environ), "transport_kwargs": {"stderr": None}}
    async with spawn_agent_process(peer, *command, **whole) as (agent, _):
        introduction = await agent.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
            ),
            client_info=Implementation(name="python-peer", title="Python peer", version="1"),
        )
        if plan["load"] is None:
            made = await agent.new_session(cwd=plan["cwd"], mcp_servers=[])
            session = made.session_id
        else:
            session = plan["load"]
            await agent.load_session(cwd=plan["cwd"], session_id=session, mcp_servers=[])
        loaded = len(peer.updates)
        for blocks in plan["prompts"]:
            blocks = [BLOCKS[block["type"]](**block) for block in blocks]
            answers.append(await attempt(agent.prompt(session_id=session, prompt=blocks)))
        if plan["load"] is None:
            answers.append(await attempt(agent.set_session_mode(session_id=session, mode_id="code")))
            answers.append(await attempt(agent.ext_method("x/any", {"a": [1, None, "é"]})))
            await agent.ext_notification("x/said", {"b": 2.5})
            await agent.cancel(session_id=session)
            # An answer, so that what was sent before it has passed.
            answers.append(await attempt(agent.ext_method("x/last", {})))
        with open(report_path, "w") as file:
            report = {
                "introduction": dump(introduction),
                "session": session,
                "loaded": loaded,
                "updates": peer.updates,
                "answers": answers,
            }
            json.dump(report, file)


asyncio.run(main())
