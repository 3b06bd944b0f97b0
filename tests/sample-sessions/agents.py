"""How each real agent is installed, pointed at the model on loopback, and started."""

import json
import sys
from pathlib import Path

WORDS = Path(__file__).with_name("words.py")


class Agent:
    """What all have: a package, settings, a way to be asked, and one to be asked again."""

    name = package = None
    call_id = staticmethod(lambda number: f"call_{number:02}")

    def set_up(self, home, project, port, words):
        """Writes its settings into `home` and gives the environment that it needs."""
        raise NotImplementedError

    def command(self, home, prompt):
        """How it is asked, for a stream of JSON."""
        raise NotImplementedError

    def again(self, home, prompt):
        """The arguments of `abide resume` that ask it once more in the same session."""
        return ["--", *self.command(home, prompt)]

    def last(self):
        """The command that ends what it leaves running."""
        return None


class Claude(Agent):
    name = "claude"
    package = "@anthropic-ai/claude-code@2.1.325"
    call_id = staticmethod(lambda number: f"toolu_{number:02}")
    tools = "Agent,Bash,Edit,Glob,Grep,Read,TodoWrite,Write"

    def set_up(self, home, project, port, words):
        (home / "words.json").write_text(json.dumps(
            {"mcpServers": {"words": {"type": "stdio", "command": words[0], "args": words[1:]}}}))
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1", "IS_SANDBOX": "1", "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_ENABLE_TASKS": "false",
        }

    def command(self, home, prompt):
        return ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose",
                "--dangerously-skip-permissions", "--tools", self.tools,
                "--mcp-config", str(home / "words.json")]


class Codex(Agent):
    name = "codex"
    package = "@openai/codex@0.166.0"

    def set_up(self, home, project, port, words):
        place = home / ".codex/config.toml"
        place.parent.mkdir(parents=True)
        place.write_text(f"""model = "gpt-5.5"
model_provider = "stub"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[analytics]
enabled = false
[tools.update_plan]
enabled = true
[projects."{project}"]
trust_level = "trusted"
[mcp_servers.words]
command = {json.dumps(words[0])}
args = {json.dumps(words[1:])}
""")
        return {"CODEX_HOME": str(place.parent), "STUB_KEY": "none"}

    def command(self, home, prompt):
        return ["codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt]


class Gemini(Agent):
    name = "gemini"
    package = "@google/gemini-cli@0.61.0"

    def set_up(self, home, project, port, words):
        place = home / ".gemini/settings.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "mcpServers": {"words": {"command": words[0], "args": words[1:], "trust": True}},
        }))
        return {"GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}", "GEMINI_API_KEY": "none"}

    def command(self, home, prompt):
        return ["gemini", "--model", "gemini-2.5-flash", "--output-format", "stream-json",
                "--approval-mode", "yolo", "--skip-trust", "-p", prompt]

    def acp(self):
        return ["gemini", "--acp", "--model", "gemini-2.5-flash", "--skip-trust"]


class Opencode(Agent):
    name = "opencode"
    package = "opencode-ai@1.18.33"

    def set_up(self, home, project, port, words):
        model = {"name": "sample-model", "tool_call": True, "reasoning": True, "attachment": True,
                 "modalities": {"input": ["text", "image"], "output": ["text"]},
                 "limit": {"context": 100000, "output": 8000}}
        place = home / ".config/opencode/opencode.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({
            "model": "stub/sample-model", "small_model": "stub/sample-model",
            "autoupdate": False, "share": "disabled", "enabled_providers": ["stub"],
            "provider": {"stub": {
                "npm": "@ai-sdk/openai-compatible", "name": "stub",
                "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"},
                "models": {"sample-model": model}}},
            "mcp": {"words": {"type": "local", "command": words}},
        }))
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_SHARE": "1"}

    def command(self, home, prompt):
        return ["opencode", "run", "--format", "json", prompt]

    def acp(self):
        return ["opencode", "acp"]


class Cline(Agent):
    name = "cline"
    package = "cline@3.0.65"

    def set_up(self, home, project, port, words):
        settings = {"provider": "cline", "apiKey": "none", "model": "sample-model",
                    "baseUrl": f"http://127.0.0.1:{port}/v1"}
        place = home / ".cline/data/settings/providers.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({
            "version": 1, "lastUsedProvider": "cline", "modes": {},
            "providers": {"cline": {"settings": settings, "tokenSource": "manual",
                                    "updatedAt": "2026-01-01T00:00:00.000Z"}}}))
        return {"CLINE_API_KEY": "none"}

    def acp(self):
        return ["cline", "--acp"]

    def last(self):
        return ["cline", "hub", "stop"]  # It leaves a daemon behind.


AGENTS = {agent.name: agent for agent in (Claude(), Codex(), Gemini(), Opencode(), Cline())}


def words_command(home):
    """The command of the server `words`, copied to where its path names no machine."""
    place = home / "words.py"
    place.write_text(WORDS.read_text())
    return [Path(sys.executable).name, str(place)]
