"""A scripted model on the loopback address that speaks the interface of whoever asks.

It speaks Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's
`streamGenerateContent`. What it answers is a function of the request alone: the prompt that was
said last tells the turn, and the results that came since tell how far the turn is.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USED = {"input": 1200, "cached": 800, "output": 64}


class Think:
    """A thought."""

    def __init__(self, text):
        self.text = text


class Say:
    """A text."""

    def __init__(self, text):
        self.text = text


class Call:
    """A call of a tool. One that `fails` is a command that ends with the exit code `exit`, or any
    other. The result of one with `image` is a picture. `free` arguments are a text instead of JSON,
    for tools that take one."""

    def __init__(self, name, arguments, fails=False, exit=0, image=False, free=False):
        self.id = None
        self.name = name
        self.arguments = arguments
        self.fails = fails or exit != 0
        self.exit = exit
        self.image = image
        self.free = free


class Turn:
    """What the model does after `prompt`: its answers, of which only the last has no calls."""

    def __init__(self, prompt, answers, subagent=False):
        self.prompt = prompt
        self.answers = answers
        self.subagent = subagent

    def calls(self):
        return [piece for answer in self.answers for piece in answer if isinstance(piece, Call)]


class Model:
    """The server. `requests` has the body of each request that belongs to a turn, with the turn."""

    def __init__(self, turns, call_id):
        self.turns = turns
        self.requests = []
        self.faults = []
        self.answers = 0
        number = 0
        for turn in turns:
            for call in turn.calls():
                number += 1
                call.id = call_id(number)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, body):
        """The pieces of the answer to a request."""
        found = self.turn_of(body)
        if found is None:
            return [Say("A greeting in five languages")]  # The title of a session, or a summary.
        turn, results = found
        self.requests.append((turn, body))
        for answer in turn.answers:
            calls = [piece.id for piece in answer if isinstance(piece, Call)]
            if not calls or not all(call in results for call in calls):
                return answer
        self.faults.append(f"asked again after the last answer to: {turn.prompt}")
        return [Say("There is nothing left to do.")]

    def turn_of(self, body):
        """The turn whose prompt was said last, and the ids of the results that came after it."""
        turn, results = None, set()
        if not body.get("tools"):
            return None
        for said in said_in(body):
            for known in self.turns:
                if known.prompt in said["text"] and not said["results"]:
                    turn, results = known, set()
            results |= said["results"]
        return turn and (turn, results)

    def handler(model):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.whole({})

            def do_GET(self):
                self.whole({"object": "list", "data": [], "models": []})

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                if "count_tokens" in self.path or "countTokens" in self.path:
                    self.whole({"input_tokens": 1200, "totalTokens": 1200})
                    return
                form = next((form for end, form in FORMS.items() if end in self.path), None)
                if form is None:
                    self.whole({})
                    return
                pieces = model.answer(body)
                model.answers += 1
                number = model.answers
                if not (body.get("stream") or "streamGenerateContent" in self.path):
                    self.whole(form["whole"](pieces, number))
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(streamed(form, pieces, number).encode())
                self.close_connection = True

            def whole(self, answer):
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        return Handler


# What a request holds --------------------------------------------------------------------------


def said_in(body):
    """Each message that is not the model's own: its text, and the ids of the results in it."""
    for message in body.get("messages") or body.get("contents") or body.get("input") or []:
        if message.get("role") in ("assistant", "model", "system", "developer"):
            continue
        parts = message.get("content") or message.get("parts") or []
        if isinstance(parts, str):
            parts = [{"text": parts}]
        ids = [message.get("tool_call_id")]
        if str(message.get("type")).endswith("_output"):
            ids.append(message.get("call_id"))
        for part in parts:
            ids.append(part.get("tool_use_id"))
            ids.append((part.get("functionResponse") or {}).get("id"))
        text = "\n".join(part.get("text") or "" for part in parts)
        yield {"text": text, "results": {id for id in ids if id}}


def streamed(form, pieces, number):
    """An answer as server-sent events."""
    text = ""
    for event in form["events"](pieces, number):
        data = event if isinstance(event, str) else json.dumps(event)
        name = event.get("type") if isinstance(event, dict) else None
        text += f"event: {name}\n" if name else ""
        text += f"data: {data}\n\n"
    return text


def text_of(pieces):
    return "".join(piece.text for piece in pieces if isinstance(piece, Say))


# Anthropic's Messages --------------------------------------------------------------------------


def anthropic_used():
    return {"input_tokens": USED["input"] - USED["cached"], "output_tokens": USED["output"],
            "cache_read_input_tokens": USED["cached"], "cache_creation_input_tokens": 0}


def anthropic_events(pieces, number):
    yield {"type": "message_start", "message": {
        "id": f"msg_{number:02}", "type": "message", "role": "assistant", "model": "sample-model",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": anthropic_used()}}
    for index, piece in enumerate(pieces):
        if isinstance(piece, Think):
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece.text},
                      {"type": "signature_delta", "signature": "c2FtcGxl"}]
        elif isinstance(piece, Say):
            block = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece.text}]
        else:
            block = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(piece.arguments)}]
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    calls = any(isinstance(piece, Call) for piece in pieces)
    reason = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
           "usage": anthropic_used()}
    yield {"type": "message_stop"}


def anthropic_whole(pieces, number):
    return {"id": f"msg_{number:02}", "type": "message", "role": "assistant",
            "model": "sample-model", "content": [{"type": "text", "text": text_of(pieces)}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": anthropic_used()}


# OpenAI's Responses ----------------------------------------------------------------------------


def responses_item(piece, answer, index):
    if isinstance(piece, Think):
        return {"type": "reasoning", "id": f"rs_{answer:02}_{index}",
                "encrypted_content": "c2FtcGxl",
                "summary": [{"type": "summary_text", "text": piece.text}]}
    if isinstance(piece, Say):
        return {"type": "message", "id": f"msg_{answer:02}_{index}", "role": "assistant",
                "content": [{"type": "output_text", "text": piece.text}]}
    if piece.free:
        return {"type": "custom_tool_call", "id": f"ctc_{piece.id}", "call_id": piece.id,
                "name": piece.name, "input": piece.arguments}
    # A tool of a server is in the name space of that server.
    space, _, name = piece.name.rpartition("::")
    item = {"type": "function_call", "id": f"fc_{piece.id}", "call_id": piece.id, "name": name,
            "arguments": json.dumps(piece.arguments)}
    return {**item, "namespace": space} if space else item


def responses_events(pieces, number):
    yield {"type": "response.created", "response": {"id": f"resp_{number:02}"}}
    for index, piece in enumerate(pieces):
        yield {"type": "response.output_item.done", "output_index": index,
               "item": responses_item(piece, number, index)}
    yield {"type": "response.completed", "response": {"id": f"resp_{number:02}", "usage": {
        "input_tokens": USED["input"], "input_tokens_details": {"cached_tokens": USED["cached"]},
        "output_tokens": USED["output"], "output_tokens_details": {"reasoning_tokens": 16},
        "total_tokens": USED["input"] + USED["output"]}}}


def responses_whole(pieces, number):
    return {"id": f"resp_{number:02}", "status": "completed",
            "output": [responses_item(piece, number, index)
                       for index, piece in enumerate(pieces)]}


# OpenAI's Chat Completions ---------------------------------------------------------------------

CHAT_USED = {"prompt_tokens": USED["input"], "completion_tokens": USED["output"],
             "total_tokens": USED["input"] + USED["output"],
             "prompt_tokens_details": {"cached_tokens": USED["cached"]}}


def chat_events(pieces, number):
    def event(delta, reason=None):
        return {"id": f"chatcmpl-{number:02}", "object": "chat.completion.chunk", "created": 1,
                "model": "sample-model",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    calls = 0
    for piece in pieces:
        if isinstance(piece, Think):
            yield event({"role": "assistant", "reasoning_content": piece.text})
        elif isinstance(piece, Say):
            yield event({"role": "assistant", "content": piece.text})
        else:
            function = {"name": piece.name, "arguments": json.dumps(piece.arguments)}
            call = {"index": calls, "id": piece.id, "type": "function", "function": function}
            yield event({"role": "assistant", "tool_calls": [call]})
            calls += 1
    yield event({}, "tool_calls" if calls else "stop")
    yield {**event({}), "choices": [], "usage": CHAT_USED}
    yield "[DONE]"


def chat_whole(pieces, number):
    return {"id": f"chatcmpl-{number:02}", "object": "chat.completion", "created": 1,
            "model": "sample-model", "usage": CHAT_USED,
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text_of(pieces)}}]}


# Gemini ----------------------------------------------------------------------------------------


def gemini_part(piece):
    if isinstance(piece, Think):
        return {"text": f"**Thinking about it**\n\n{piece.text}", "thought": True}
    if isinstance(piece, Say):
        return {"text": piece.text}
    return {"functionCall": {"id": piece.id, "name": piece.name, "args": piece.arguments}}


def gemini_events(pieces, number):
    for piece in pieces:
        yield {"candidates": [{"index": 0, "content": {
            "role": "model", "parts": [gemini_part(piece)]}}]}
    yield gemini_whole([], number)


def gemini_whole(pieces, number):
    parts = [gemini_part(piece) for piece in pieces] or [{"text": ""}]
    return {"candidates": [{"index": 0, "finishReason": "STOP",
                            "content": {"role": "model", "parts": parts}}],
            "usageMetadata": {"promptTokenCount": USED["input"],
                              "cachedContentTokenCount": USED["cached"],
                              "candidatesTokenCount": USED["output"],
                              "totalTokenCount": USED["input"] + USED["output"]}}


FORMS = {
    "/messages": {"events": anthropic_events, "whole": anthropic_whole},
    "/responses": {"events": responses_events, "whole": responses_whole},
    "/chat/completions": {"events": chat_events, "whole": chat_whole},
    "enerateContent": {"events": gemini_events, "whole": gemini_whole},
}
