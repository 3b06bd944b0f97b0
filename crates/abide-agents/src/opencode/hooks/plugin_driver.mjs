// Plays opencode to the plugin: `node plugin_driver.mjs PLUGIN DIRECTORY`. Ends with 0 if the plugin kept quiet.

import { pathToFileURL } from "node:url"

const [plugin, directory] = process.argv.slice(2)
const { Abide } = await import(pathToFileURL(plugin))

const asked = []
const client = {
  session: {
    get: ({ path }) => {
      asked.push(path.id)
      if (path.id === "ses_broken") throw new Error("no such session")
      if (path.id === "ses_slow") return new Promise(() => {})
      return Promise.resolve({ data: { id: path.id, parentID: "ses_main", directory: "/elsewhere" } })
    },
  },
}
const hooks = await Abide({ client, directory })
const event = (type, properties) => hooks.event({ event: { type, properties } })
const prompt = (sessionID, id, ...parts) =>
  hooks["chat.message"](
    { sessionID },
    { message: { id, role: "user", model: { providerID: "p", modelID: "m" } }, parts },
  )
const text = (text, more) => ({ type: "text", text, ...more })
const said = (sessionID, text, more) =>
  event("message.part.updated", { part: { type: "text", sessionID, messageID: "msg_a", text, ...more } })

// A turn that is open is remembered, however many others there are.
await prompt("ses_open", "msg_10", text("long"))
await said("ses_open", "Long.")
for (let n = 0; n < 300; n++) await event("session.idle", { sessionID: `ses_${n}` })
await event("session.idle", { sessionID: "ses_open" })

await event("session.created", { info: { id: "ses_main", directory } })
await prompt("ses_main", "msg_1", text("first"), text("hidden", { synthetic: true }), text("second"))
await hooks["tool.execute.after"](
  { tool: "bash", sessionID: "ses_main", callID: "c1", args: { command: "ls" } },
  { title: "ls", output: "x".repeat(1 << 20), metadata: {} },
)
await said("ses_main", "first", { messageID: "msg_1" })
await said("ses_main", "Do")
await said("ses_main", "Done.")
await said("ses_main", "not shown", { synthetic: true })
await event("session.idle", { sessionID: "ses_main" })
// It is idle already.
await event("session.idle", { sessionID: "ses_main" })

// A subagent, of which only the client knows.
await prompt("ses_child", "msg_2", text("count"))
await event("session.idle", { sessionID: "ses_child" })

// An error that the agent recovers from, and one that it does not.
await prompt("ses_main", "msg_3", text("again"))
await event("session.error", { sessionID: "ses_main", error: { name: "APIError" } })
await said("ses_main", "Better.")
await event("session.idle", { sessionID: "ses_main" })
await prompt("ses_main", "msg_4", text("once more"))
await event("session.error", { sessionID: "ses_main", error: { name: "MessageAbortedError" } })
await event("session.idle", { sessionID: "ses_main" })
await prompt("ses_main", "msg_5", text("and more"))
await event("session.error", { sessionID: "ses_main", error: { name: "APIError" } })

// A turn that never gets idle leaves nothing to the next one.
await prompt("ses_torn", "msg_8", text("torn"))
await said("ses_torn", "Of the first.")
await prompt("ses_torn", "msg_9", text("next"))
await event("session.idle", { sessionID: "ses_torn" })

// More than may wait: the first is told, the second is not, and the end of the turn is.
await prompt("ses_large", "msg_11", text("large"))
for (const callID of ["c3", "c4"]) {
  const output = "x".repeat(9 << 20)
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "ses_large", callID, args: {} }, { output })
}
await event("session.idle", { sessionID: "ses_large" })

// Whatever is odd.
await prompt("ses_broken", "msg_6", text("a"))
await prompt("ses_slow", "msg_7", text("b"))
await hooks["chat.message"]({}, {})
await hooks["chat.message"](undefined, undefined)
await hooks["tool.execute.after"]({}, undefined)
await hooks["tool.execute.after"]({ sessionID: "ses_odd", callID: "c2", args: { n: 1n } }, {})
await hooks.event({})
await hooks.event({ event: { type: "session.created" } })
await hooks.event({ event: { type: "toString", properties: {} } })
await hooks.dispose()
await hooks.dispose()

if (new Set(asked).size !== asked.length) throw new Error(`asked twice: ${asked}`)
