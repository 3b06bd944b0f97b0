// Tells abide what happens in opencode: prompts, calls of tools, ends of turns.
//
// abide writes this file when it is enabled, and removes it when it is disabled. It never throws, never
// prints, and waits for abide for two seconds at most: an abide that hangs or is gone changes nothing.

import { spawn } from "node:child_process"

const ABIDE = __ABIDE__
/** How long abide may take, in milliseconds. */
const LIMIT = 2000
/** How long opencode may take to say which session started another. */
const ASK = 500
/** How many payloads may wait in a session. */
const WAITING = 64
/** How many characters of calls may wait in all sessions together. */
const QUEUED = 16 << 20
/** How many sessions are remembered, and how much of a text in them. */
const SESSIONS = 256
const TEXT = 1 << 20

/** Starts abide with a payload as JSON. The promise is kept when it has ended, or at the limit. */
function start(payload) {
  return new Promise((done) => {
    let timer
    const end = () => {
      clearTimeout(timer)
      done()
    }
    try {
      const options = { stdio: ["pipe", "ignore", "ignore"], windowsHide: true }
      const child = spawn(ABIDE, ["hook", "opencode"], options)
      timer = setTimeout(() => {
        try {
          child.kill("SIGKILL")
          child.unref()
        } catch {}
        end()
      }, LIMIT)
      child.on("error", end)
      child.on("close", end)
      child.stdin.on("error", () => {})
      child.stdin.end(payload)
    } catch {
      end()
    }
  })
}

/** Waits for a promise, but not for longer than this. */
function within(limit, promise) {
  let timer
  const late = new Promise((done) => {
    timer = setTimeout(done, limit)
  })
  return Promise.race([promise.catch(() => {}), late]).finally(() => clearTimeout(timer))
}

/** The length of a value as JSON; nothing for one that is no JSON, which is never sent. */
function written(value) {
  try {
    return JSON.stringify(value)?.length ?? 0
  } catch {
    return 0
  }
}

/** The same function without exceptions. */
function quiet(run) {
  return async (...given) => {
    try {
      await run(...given)
    } catch {}
  }
}

export const Abide = async ({ client, directory }) => {
  const sessions = new Map()

  let queued = 0

  /** Forgets the session that was not used for the longest time, but none with an open turn. */
  function forget() {
    for (const [id, session] of sessions) {
      if (session.open || session.waiting > 0) continue
      sessions.delete(id)
      return
    }
  }

  /** What is remembered of a session. */
  function known(id) {
    let session = sessions.get(id)
    if (session) {
      // The one that was used last stands last.
      sessions.delete(id)
      sessions.set(id, session)
    } else {
      if (sessions.size >= SESSIONS) forget()
      session = { parent: undefined, directory, last: Promise.resolve(), waiting: 0 }
      sessions.set(id, session)
    }
    return session
  }

  function learn(session, info) {
    session.parent = info?.parentID ?? null
    session.directory = info?.directory ?? directory
  }

  /** Asks once which session started this one: it may have begun in an earlier run. */
  async function ask(id, session) {
    if (session.parent !== undefined) return
    session.parent = null
    const told = new Promise((done) => done(client.session.get({ path: { id } })))
    await within(ASK, told.then((answer) => learn(session, answer?.data)))
  }

  /** Tells abide, after all else that is told of the session. */
  function tell(id, payload) {
    if (!id) return undefined
    const session = known(id)
    if (session.waiting >= WAITING && payload.event === "call") return session.last
    const size = (payload.result?.length ?? 0) + written(payload.arguments)
    if (payload.event === "call" && queued + size > QUEUED) return session.last
    session.waiting += 1
    queued += size
    const { turn, model } = session
    const run = async () => {
      try {
        await ask(id, session)
        const parent = session.parent ?? undefined
        const place = { session: id, parent, directory: session.directory, model, turn }
        await start(JSON.stringify({ ...payload, ...place }))
      } catch {}
      session.waiting -= 1
      queued -= size
    }
    session.last = session.last.then(run)
    return session.last
  }

  /**
   * The end of a turn, with the last text of the agent, and the error if there was one. Without an
   * error only `idle` tells it.
   */
  function finish(id, session, idle) {
    if (!session.open || !(idle || session.error)) return
    session.open = false
    const { error, text } = session
    session.error = session.text = undefined
    const event = error ? "error" : "idle"
    const interrupted = error ? error.name === "MessageAbortedError" : undefined
    tell(id, { event, message: text?.said, error: error?.name, interrupted })
  }

  const events = {
    "session.created": ({ info }) => {
      learn(known(info.id), info)
      tell(info.id, { event: "session" })
    },
    "session.deleted": ({ info }) => {
      tell(info.id, { event: "end" })
      known(info.id).ended = true
    },
    "session.idle": ({ sessionID }) => finish(sessionID, known(sessionID), true),
    "session.error": ({ sessionID, error }) => {
      if (sessionID) known(sessionID).error = error ?? {}
    },
    "message.part.updated": ({ part }) => {
      const session = part && sessions.get(part.sessionID)
      if (!session?.open || part.type !== "text" || part.synthetic || part.ignored) return
      if (part.messageID === session.turn || !part.text?.trim()) return
      // What went wrong before did not end the turn.
      session.error = undefined
      session.text = { said: part.text.slice(0, TEXT) }
    },
  }

  return {
    "chat.message": quiet(async ({ sessionID }, { message, parts }) => {
      if (!sessionID) return
      const session = known(sessionID)
      finish(sessionID, session, false)
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic)
      session.open = true
      session.ended = false
      // What a turn that never got idle left is not this one's.
      session.error = session.text = undefined
      session.turn = message.id
      session.model = message.model?.modelID ?? session.model
      const prompt = texts.map((part) => part.text).join("\n")
      await within(LIMIT, tell(sessionID, { event: "prompt", prompt }))
    }),

    // The next step of the agent does not wait for this.
    "tool.execute.after": quiet(async ({ tool, sessionID, callID, args }, output) => {
      const result = output?.output ?? output?.content ?? ""
      tell(sessionID, { event: "call", call: callID, tool, arguments: args, result, ok: true })
    }),

    event: quiet(async ({ event }) => {
      events[event?.type]?.(event.properties ?? {})
    }),

    // What began when a turn ended comes to its end here: opencode waits for nothing else then.
    dispose: quiet(async () => {
      const last = []
      for (const [id, session] of [...sessions]) {
        finish(id, session, false)
        if (!session.ended && session.turn) tell(id, { event: "end" })
        last.push(session.last)
      }
      await within(LIMIT, Promise.all(last))
      sessions.clear()
    }),
  }
}
