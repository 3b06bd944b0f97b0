"""The story of Claude Code in abide's own events, as an agent that uses the library records it.

What was said are messages; what was done are `tool.called` and `tool.finished`. The calls of one
answer are in its message as well, as blocks `tool_call`. A subagent has a lane, the first turn is
compacted before the second, and one call never comes back.
"""

from model import Call, Say

LANE = "count-names"
LOST = {"call": "lost_01", "name": "Bash", "arguments": {"command": "git push origin main"}}


def own_events(turns, requests):
    """The events, one after the other, with the results that are in the requests to the model."""
    results = {block["tool_use_id"]: block
               for body in requests for message in body["messages"]
               for block in message["content"]
               if isinstance(block, dict) and block.get("type") == "tool_result"}
    [first, subagent, second] = turns
    recorder = Recorder(results, subagent)
    events = [{"kind": "model.configured", "data": {"model": "sample-model", "window": 100000}}]
    events += recorder.turn(1, first)
    events.append({"kind": "context.compacted", "data": {
        # Two events come before these, of which the third is the first prompt.
        "first": 5, "last": 2 + len(events), "by": "extractive", "summary":
        "## Goal\n\nEvery greeting ends with `!`.\n\n- `greet.py` is changed ✅"}})
    events += recorder.turn(2, second)
    return events


class Recorder:
    def __init__(self, results, subagent):
        self.results = results
        self.subagent = subagent

    def turn(self, number, turn):
        def event(kind, data):
            return {"kind": kind, "turn": number, "data": data}

        yield event("turn.started", {"turn": number, "agent": "greeter"})
        yield event("message.added", {"role": "user", "content": turn.prompt})
        for at, answer in enumerate(turn.answers):
            yield from self.answer(answer, event, blocks=at == 1)
            if number > 1 and at == 2:
                yield event("tool.called", LOST)
        used = {"input_tokens": 1200 * len(turn.answers), "output_tokens": 64 * len(turn.answers)}
        yield event("turn.finished", {"turn": number, "status": "completed", "usage": used})

    def answer(self, answer, event, blocks):
        """A message with what is said, and with the calls too where `blocks` says so; then the
        executions."""
        content = []
        for piece in answer:
            if isinstance(piece, Say):
                content.append({"type": "text", "text": piece.text})
            elif not isinstance(piece, Call):
                content.append({"type": "thinking", "thinking": piece.text})
            elif blocks:
                content.append({"type": "tool_call", "call": piece.id, "name": piece.name,
                                "arguments": piece.arguments})
        if content:
            yield event("message.added", {"role": "assistant", "content": content})
        calls = [piece for piece in answer if isinstance(piece, Call)]
        for call in calls:
            yield event("tool.called", {"call": call.id, "name": call.name,
                                        "arguments": call.arguments})
        for call in calls:
            if call.name == "Agent":
                for inner in self.subagent.answers:
                    for told in self.answer(inner, event, blocks=False):
                        yield {**told, "lane": LANE}
            result = self.results[call.id]
            yield event("tool.finished", {"call": call.id, "ok": not result.get("is_error"),
                                          "result": result["content"]})
            if call.name in ("Edit", "Write"):
                yield event("file.touched", {"path": call.arguments["file_path"], "op": "write"})
