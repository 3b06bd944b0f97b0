// An agent made with the npm package, which ships no example of one. It thinks, calls a tool after
// asking for permission, reads a file through the client, and says what it was told.

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.ACP_PEERS_NODE + "/");
const sdk = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")).href);
const { client: theirs, agent: ours } = sdk.methods;

let sessions = 0;
let calls = 0;
const connection = sdk
  .agent({ name: "node-agent" })
  .onRequest(ours.initialize, () => ({
    protocolVersion: sdk.PROTOCOL_VERSION,
    agentInfo: { name: "node-agent", version: "1" },
    agentCapabilities: { promptCapabilities: { embeddedContext: true } },
  }))
  .onRequest(ours.session.new, () => {
    sessions += 1;
    return { sessionId: `node-${process.pid}-${sessions}` };
  })
  .onRequest(ours.session.setMode, () => ({}))
  .onRequest(ours.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const tell = (update) => client.notify(theirs.session.update, { sessionId, update });
    const say = (sessionUpdate, text) => tell({ sessionUpdate, content: { type: "text", text } });
    await say("agent_thought_chunk", "What did they say? ");
    calls += 1;
    const toolCallId = `call-${calls}`;
    await tell({ sessionUpdate: "tool_call", toolCallId, title: "Read", kind: "read", status: "pending" });
    const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
    const answer = await client.request(theirs.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId },
      options,
    });
    const file = await client.request(theirs.fs.readTextFile, { sessionId, path: "/a.txt" });
    const content = [{ type: "content", content: { type: "text", text: file.content } }];
    await tell({ sessionUpdate: "tool_call_update", toolCallId, status: "completed", content });
    await say("agent_message_chunk", `You answered ${answer.outcome.optionId}. `);
    for (const block of params.prompt) {
      await tell({ sessionUpdate: "agent_message_chunk", content: block });
    }
    return { stopReason: "end_turn" };
  })
  .onRequest("*", ({ params }) => ({ asked: params }))
  .onNotification("*", () => {})
  .connect(sdk.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
await connection.closed;
