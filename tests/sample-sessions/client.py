"""A client of the Agent Client Protocol that says prompts and allows everything."""

import json
import subprocess
import threading


class ClientError(Exception):
    """The agent refused a request, or did not answer."""


class Client:
    """One process that speaks the protocol; if the client `writes`, it writes files for it."""

    def __init__(self, command, project, environment, log, writes):
        self.process = subprocess.Popen(command, cwd=project, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.number = 0
        self.answers = {}
        self.ended = False
        self.arrived = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()
        fs = {"readTextFile": False, "writeTextFile": writes}
        self.abilities = self.ask("initialize", {
            "protocolVersion": 1, "clientCapabilities": {"fs": fs, "terminal": False},
            "clientInfo": {"name": "sample-client", "version": "1.0.0"}})["agentCapabilities"]

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                with self.arrived:
                    self.answers[message["id"]] = message
                    self.arrived.notify_all()
            elif "id" in message:
                self.send({"id": message["id"], **self.reply(message["method"], message["params"])})
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()

    def reply(self, method, parameters):
        if method == "session/request_permission":
            options = {option["kind"]: option["optionId"] for option in parameters["options"]}
            return {"result": {"outcome": {"outcome": "selected",
                                           "optionId": options["allow_once"]}}}
        if method == "fs/write_text_file":
            with open(parameters["path"], "w", encoding="utf-8") as file:
                file.write(parameters["content"])
            return {"result": None}
        return {"error": {"code": -32601, "message": f"no such method: {method}"}}

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, parameters):
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": parameters})
        with self.arrived:
            self.arrived.wait_for(lambda: number in self.answers or self.ended, timeout=240)
            answer = self.answers.get(number)
        if answer is None or "error" in answer:
            raise ClientError(f"{method}: {answer['error'] if answer else 'no answer'}")
        return answer["result"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
