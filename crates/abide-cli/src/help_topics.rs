//! What `abide help TOPIC` explains besides the commands.

/// A topic of the help.
pub(crate) struct HelpTopic {
    pub(crate) name: &'static str,
    /// What it is about, in a line.
    pub(crate) about: &'static str,
    pub(crate) text: &'static str,
}

/// All topics, in the order in which they are listed.
pub(crate) const HELP_TOPICS: [HelpTopic; 6] = [
    HelpTopic {
        name: "sessions",
        about: "How a session is named, and which one is meant if none is",
        text: "\
A session is one line of work: a conversation with its tool calls, tasks and file changes. It keeps
its id for ever, whichever process works on it.

Commands that look at a session, and `resume`, take it as their first argument; every command takes
it with -s. It can be named by
  - its short id, as lists show it: k3x9ab, or the beginning of it
  - its whole id
  - its name: the title, else the first prompt, or the beginning of it
  - your own key: my-agent/ticket-42
Commands that write to a session or change files need the whole name.

Without a name, a command means $ABIDE_SESSION, else the latest session of this project; the choice
is printed on stderr. Commands about files (save, diff, rewind, undo, redo) mean the latest session
that works in this directory. -A means the sessions of all projects.
",
    },
    HelpTopic {
        name: "places",
        about: "How to name a place in a session: a checkpoint, a turn, an event",
        text: "\
WHERE, in `rewind`, `diff`, `fork` and `context --at`, is one of
  3            checkpoint 3, as `abide saves` numbers them
  \"it works\"   the checkpoint with this label
  latest       the newest checkpoint that is whole
  turn:3       the end of turn 3
  @41          right behind event 41, as `abide search` and `abide tail` number them
  decision     right behind the last decision of an arbiter

A place without a checkpoint of its own gets the files of the nearest checkpoint before it. The
preview says which one that is.
",
    },
    HelpTopic {
        name: "store",
        about: "Where sessions are kept, and which store a command uses",
        text: "\
A command uses the first of these stores:
  1. --store DIR or --store postgres://USER@HOST/DATABASE
  2. $ABIDE_STORE
  3. .abide here or above, up to the root of the git checkout; `abide init` creates it
  4. store = \"…\" in abide/config.toml among your settings
  5. your own store, $XDG_DATA_HOME/abide/store (~/.local/share/abide/store)

Your own store holds the sessions of all your projects. The first recording makes it. A project is
known by its git remote and first commit, so that clones and worktrees share their sessions.
`abide store path` prints where the store is. `abide copy` copies sessions to another store.
",
    },
    HelpTopic {
        name: "environment",
        about: "The variables that abide reads, and those it sets for an agent",
        text: "\
Read:
  ABIDE_STORE      the store, as --store
  ABIDE_SESSION    the session that commands mean if none is named
  ABIDE_TASK, ABIDE_LANE
                   the task and the lane that recorded events belong to
  ABIDE_PAGER, PAGER
                   the program that shows long text (default: less)
  NO_COLOR, TERM   no colours if NO_COLOR is set or TERM is dumb
  XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME
                   where stores, notes, caches and settings are
  PGUSER, PGPASSWORD, AWS_…
                   the credentials of a shared store

Set by `abide run`, `abide resume` and `abide acp` for the agent they start: ABIDE_STORE,
ABIDE_SESSION, ABIDE_TASK and ABIDE_LANE. What the agent starts records into the same session.
",
    },
    HelpTopic {
        name: "exit-codes",
        about: "What the exit code of a command means",
        text: "\
  0    done
  1    failed; the error says why. `run`: a task failed or cannot be started.
       `doctor`: something is wrong. `record`: a line was refused
  2    the command line makes no sense
  3    the reader of the output has gone (a broken pipe)
  4    cancelled: by Ctrl-C, SIGTERM, or \"no\" to a question
  255  a bug in abide; please report it

With --json an error is one line of JSON on stdout:
{\"error\":{\"code\":…,\"message\":…,\"hint\":…}}. The exit codes are the same.
",
    },
    HelpTopic {
        name: "held",
        about: "What can be done while an agent works on a session",
        text: "\
One process at a time writes to a session: `abide run`, `abide resume`, `abide acp` or a long
`abide record` holds it. Other commands need not wait for it:
  - everything that looks (ls, search, show, status, tail, diff, export, share, context) works
  - save, tasks, rename, record and rewind of files are handed to the process that holds the session
  - a rewind of the conversation is refused: the agent has it in memory. End the agent first

A session whose writer does not answer is waited for: 2 seconds, or as long as --wait says.
",
    },
];
