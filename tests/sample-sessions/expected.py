"""What a reader must find in each sample, counted from the script of the model.

How much an agent tells of a call depends on the form; that is said here, form by form.
"""

from model import Call
from own import LOST

SHELLS = {"Bash", "exec_command", "run_shell_command", "bash", "run_commands"}


class Form:
    """A form that tells everything. What others leave out is in the classes below."""

    subagents = True
    prompt_images = 0

    def __init__(self, turns):
        self.turns = [turn for turn in turns if self.subagents or not turn.subagent]

    def calls(self):
        """The id of each call, as the form has it, with the call."""
        return [(self.id(call), call) for turn in self.turns for call in turn.calls()]

    def id(self, call):
        return call.id

    def marks_failed(self, call):
        """Whether the form has a mark for the failure of such a call."""
        return True

    def tells_exit(self, call):
        return call.name in SHELLS

    def shows_image(self, call):
        return True

    def facts(self):
        calls = self.calls()
        failed = [id for id, call in calls if call.fails and self.marks_failed(call)]
        exits = {id: call.exit for id, call in calls if call.exit and self.tells_exit(call)}
        images = sum(call.image and self.shows_image(call) for _, call in calls)
        return {
            "calls": len(calls),
            "results": len(calls),
            "failed": len(failed),
            "prompts": sum(not turn.subagent for turn in self.turns),
            "images": images + self.prompt_images,
            "subagents": sum(turn.subagent for turn in self.turns),
            "call_ids": [id for id, _ in calls],
            "failed_ids": failed,
            "exit_codes": exits,
        }


class ClaudeAnthropic(Form):
    subagents = False


class Own(Form):
    """One call more, which never comes back."""

    def facts(self):
        facts = super().facts()
        facts.update(calls=facts["calls"] + 1, call_ids=[*facts["call_ids"], LOST["call"]])
        return facts


class ClineAcp(Form):
    """What a subagent does is among the rest, with nothing that tells it apart. A failure is in
    the details of a result."""

    prompt_images = 1

    def facts(self):
        return {**super().facts(), "subagents": 0}


class CodexStream(Form):
    """Its items are numbered in each run anew, and abide puts the number of the turn before them.
    All states of a to-do list are one item, which abide records as a call for each state; a
    picture that the model looks at is no item at all."""

    def calls(self):
        calls = []
        for run, turn in enumerate(self.turns, 1):
            number, plan, states = 0, None, 0
            for piece in (piece for answer in turn.answers for piece in answer):
                name = piece.name if isinstance(piece, Call) else None
                if name == "view_image":
                    continue
                if name == "update_plan":
                    if plan is None:
                        plan, number = number, number + 1
                    states += 1
                    calls.append((f"{run}.item_{plan}.{states}", piece))
                    continue
                if name is not None:
                    calls.append((f"{run}.item_{number}", piece))
                number += 1
        return calls


class CodexResponses(Form):
    """A result of Responses is a text, which tells the exit code; there is no mark of failure."""

    def marks_failed(self, call):
        return False


class GeminiStream(Form):
    """A command that fails is a success to it, and pictures are only named."""

    def id(self, call):
        return f"{call.name}__{call.id}"

    def marks_failed(self, call):
        return call.name not in SHELLS

    def tells_exit(self, call):
        return False

    def shows_image(self, call):
        return False


class GeminiAcp(GeminiStream):
    prompt_images = 1


class OpencodeStream(Form):
    """It tells nothing of what a subagent does."""

    subagents = False


class OpencodeAcp(OpencodeStream):
    """An exit code is in the details of a result, which is no failure."""

    prompt_images = 1

    def marks_failed(self, call):
        return call.name not in SHELLS


class OpencodeOpenai(Form):
    """A result of Chat Completions is a text; the executions beside it say what failed."""

    subagents = False

    def marks_failed(self, call):
        return call.name in SHELLS

    def tells_exit(self, call):
        return False


class OpencodeOpenaiStream(OpencodeOpenai):
    def marks_failed(self, call):
        return False


FORMS = {
    "claude-anthropic": ClaudeAnthropic,
    "claude-anthropic-stream": ClaudeAnthropic,
    "claude-stream": Form,
    "cline-acp": ClineAcp,
    "codex-responses": CodexResponses,
    "codex-responses-stream": CodexResponses,
    "codex-stream": CodexStream,
    "gemini-acp": GeminiAcp,
    "gemini-stream": GeminiStream,
    "opencode-acp": OpencodeAcp,
    "opencode-openai": OpencodeOpenai,
    "opencode-openai-stream": OpencodeOpenaiStream,
    "opencode-stream": OpencodeStream,
    "own": Own,
}


def expected(name, turns):
    return FORMS[name](turns).facts()
