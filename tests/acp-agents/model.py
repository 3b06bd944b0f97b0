"""A stubbed model on the loopback address, for agents that speak ACP.

It speaks Chat Completions and Gemini's `streamGenerateContent`. What it answers is a function of
the request alone, so that an agent that was killed and asks again gets the answer that it would
have got. Unlike `stub-model` it can stop in the middle of a sentence, until it is let go on.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Turn:
    """What the model does when the user says `prompt`: it asks for a command, then says something.

    Of a turn that is `held` it says the first half only, and the rest when the model is let go on.
    """

    def __init__(self, prompt, number, held=False):
        self.prompt = prompt
        self.before = f"Going to write {number}."
        self.command = f"echo {number} >> out.txt"
        self.half = f"Now line {number} is"
        self.answer = f"{self.half} in the file."
        self.held = held


class Model:
    """The server. `requests` has the body of each request that is part of a conversation."""

    def __init__(self, turns, tool):
        self.turns = turns
        self.tool = tool
        self.requests = []
        self.go_on = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()

    def asked(self, start=0):
        """The conversations since request `start`, each as one text."""
        return [json.dumps(body, ensure_ascii=False) for body in self.requests[start:]]

    def pieces(self, body):
        """What is answered to a request: texts, a call of the tool, and None where it holds."""
        last = self.spoken_of(body)
        if not tools_of(body) or last is None:
            # A title, a summary, or whatever else an agent asks for by the way.
            return ["A few lines"]
        if last + 1 > len(self.turns):
            return ["There is nothing to do."]
        turn = self.turns[last]
        if f"call_{last}" not in results_since_said(body, turn.prompt):
            return [turn.before, {"id": f"call_{last}", "command": turn.command}]
        rest = turn.answer[len(turn.half):]
        return [turn.half, None, rest] if turn.held else [turn.half, rest]

    def spoken_of(self, body):
        """The number of the turn whose prompt was said last."""
        for role, text in reversed(said(body)):
            if role == "user":
                at = {text.rfind(turn.prompt): number for number, turn in enumerate(self.turns)}
                if max(at) >= 0:
                    return at[max(at)]
        return None

    def handler(model):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                try:
                    body = json.loads(self.rfile.read(length))
                    self.answer(body)
                except (ConnectionError, ValueError):
                    pass  # The agent was killed while it asked or was answered.
                self.close_connection = True

            def answer(self, body):
                gemini = "contents" in body
                if tools_of(body):
                    model.requests.append(body)
                pieces = model.pieces(body)
                streamed = body.get("stream") or "streamGenerateContent" in self.path
                self.send_response(200)
                kind = "text/event-stream" if streamed else "application/json"
                self.send_header("content-type", kind)
                self.send_header("connection", "close")
                self.end_headers()
                form = gemini_events if gemini else chat_events
                if not streamed:
                    text = "".join(piece for piece in pieces if isinstance(piece, str))
                    whole = gemini_whole(text) if gemini else chat_whole(text)
                    self.wfile.write(json.dumps(whole).encode())
                    return
                for event in form(pieces, model.tool):
                    if event is None:
                        model.go_on.wait()
                        continue
                    data = event if isinstance(event, str) else json.dumps(event)
                    self.wfile.write(f"data: {data}\n\n".encode())
                    self.wfile.flush()

        return Handler


# What a request holds --------------------------------------------------------------------------


def messages_of(body):
    return body.get("contents") or body.get("messages") or []


def tools_of(body):
    return body.get("tools") or []


def text_of(message):
    content = message.get("parts", message.get("content")) or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def said(body):
    """Who said what, in order; results of tools are not meant."""
    both = ((message.get("role"), text_of(message)) for message in messages_of(body))
    return [(role, text) for role, text in both if text]


def results_since_said(body, prompt):
    """The results of tools behind the message that has the prompt, as one text."""
    messages = messages_of(body)
    start = max(at for at, message in enumerate(messages)
                if message.get("role") == "user" and prompt in text_of(message))
    results = []
    for message in messages[start:]:
        if message.get("role") == "tool":
            results.append(message.get("tool_call_id", ""))
        for part in message.get("parts") or []:
            results.append(json.dumps(part.get("functionResponse", "")))
    return " ".join(results)


# Answers in the form of each interface ---------------------------------------------------------


def chat_events(pieces, tool):
    finish = "stop"

    def event(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "stub", "object": "chat.completion.chunk", "created": 1, "model": "stub",
                "choices": [choice]}

    for piece in pieces:
        if piece is None:
            yield None
        elif isinstance(piece, str):
            yield event({"role": "assistant", "content": piece})
        else:
            finish = "tool_calls"
            function = {"name": tool[0], "arguments": json.dumps(arguments(piece, tool))}
            call = {"index": 0, "id": piece["id"], "type": "function", "function": function}
            yield event({"role": "assistant", "tool_calls": [call]})
    yield event({}, finish)
    used = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
    yield {**event({}), "choices": [], "usage": used}
    yield "[DONE]"


def chat_whole(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text},
              "finish_reason": "stop"}
    return {"id": "stub", "object": "chat.completion", "created": 1, "model": "stub",
            "choices": [choice],
            "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}}


def gemini_events(pieces, tool):
    for at, piece in enumerate(pieces):
        if piece is None:
            yield None
            continue
        part = {"text": piece}
        if not isinstance(piece, str):
            call = {"id": piece["id"], "name": tool[0], "args": arguments(piece, tool)}
            part = {"functionCall": call}
        yield gemini_part(part, last=at == len(pieces) - 1)


def gemini_whole(text):
    return gemini_part({"text": text}, last=True)


def gemini_part(part, last):
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if not last:
        return {"candidates": [candidate]}
    candidate["finishReason"] = "STOP"
    used = {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19}
    return {"candidates": [candidate], "usageMetadata": used}


def arguments(piece, tool):
    return {tool[1]: piece["command"], "description": "Write a line"}
