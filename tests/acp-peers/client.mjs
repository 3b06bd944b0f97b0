// A client made with the npm package: `client.mjs PLAN REPORT COMMAND…`; see client.py for PLAN and
// REPORT.

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

// The package is in a directory of its own, which the environment names.
const require = createRequire(process.env.ACP_PEERS_NODE + "/");
const sdk = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")).href);

const [planPath, reportPath, program, ...args] = process.argv.slice(2);
const plan = JSON.parse(readFileSync(planPath, "utf8"));
const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => agent.on("exit", resolve));
const stream = sdk.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const updates = [];
const { client: ours, agent: theirs } = sdk.methods;
const app = sdk
  .client({ name: "node-peer" })
  .onRequest(ours.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onRequest(ours.fs.readTextFile, () => ({ content: "what the file holds\n" }))
  .onRequest(ours.fs.writeTextFile, () => ({}))
  .onRequest(ours.terminal.create, () => ({ terminalId: "terminal-1" }))
  .onRequest(ours.terminal.output, () => ({ output: "out\n", truncated: false }))
  .onRequest(ours.terminal.waitForExit, () => ({ exitCode: 0 }))
  .onRequest(ours.terminal.release, () => ({}))
  .onRequest(ours.terminal.kill, () => ({}))
  .onRequest("*", () => ({ custom: { answer: 42 } }))
  .onNotification(ours.session.update, ({ params }) => {
    updates.push({ session: params.sessionId, update: params.update });
  })
  .onNotification("*", () => {});

async function attempt(request) {
  try {
    return { result: await request };
  } catch (error) {
    if (error?.code === undefined) throw error;
    return { error: { code: error.code, message: error.message } };
  }
}

await app.connectWith(stream, async (context) => {
  const introduction = await context.request(theirs.initialize, {
    protocolVersion: sdk.PROTOCOL_VERSION,
    clientInfo: { name: "node-peer", version: "1" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  let session = plan.load;
  const where = { cwd: plan.cwd, mcpServers: [] };
  if (session === null) {
    session = (await context.request(theirs.session.new, where)).sessionId;
  } else {
    await context.request(theirs.session.load, { ...where, sessionId: session });
  }
  // The SDK hands updates on in its own time: an answer may be seen before what came before it.
  for (let seen = -1; seen !== updates.length; ) {
    seen = updates.length;
    await new Promise((done) => setTimeout(done, 250));
  }
  const loaded = updates.length;
  const answers = [];
  for (const prompt of plan.prompts) {
    answers.push(await attempt(context.request(theirs.session.prompt, { sessionId: session, prompt })));
  }
  if (plan.load === null) {
    const mode = { sessionId: session, modeId: "code" };
    answers.push(await attempt(context.request(theirs.session.setMode, mode)));
    answers.push(await attempt(context.request("_x/any", { a: [1, null, "é"] })));
    await context.notify("_x/said", { b: 2.5 });
    await context.notify(theirs.session.cancel, { sessionId: session });
    answers.push(await attempt(context.request("_x/last", {})));
  }
  writeFileSync(reportPath, JSON.stringify({ introduction, session, loaded, updates, answers }));
});
agent.stdin.end();
await ended;
