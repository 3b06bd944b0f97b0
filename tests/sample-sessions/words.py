"""A server of the Model Context Protocol with one tool, `translate`, over stdin and stdout."""

import json
import sys

WORDS = {"de": "Hallo", "fr": "Bonjour", "ja": "こんにちは", "ko": "안녕하세요", "zh": "你好"}
TOOL = {
    "name": "translate",
    "description": "Translate a word into a language",
    "annotations": {"readOnlyHint": True},
    "inputSchema": {
        "type": "object",
        "properties": {"word": {"type": "string"}, "language": {"type": "string"},
                       "options": {"type": "object"}},
        "required": ["word", "language"],
    },
}


def answer(method, parameters):
    if method == "initialize":
        return {"protocolVersion": parameters["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "words", "version": "1.0.0"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        word = WORDS.get(parameters["arguments"]["language"], "?")
        return {"content": [{"type": "text", "text": f"{word} (formal and informal)"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
