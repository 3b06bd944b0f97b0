//! What `abide help TOPIC` explains besides the commands.

/// A topic of the help.
pub(crate) struct HelpTopic {
    pub(crate) name: &'static str,
    /// What it is about, in a line.
    pub(crate) about: &'static str,
    pub(crate) text: &'static str,
}

/// All topics, in the order in which they are listed.
pub(crate) const HELP_TOPICS: [HelpTopic; 7] = [
    HelpTopic {
        name: "sessions",
        about: "How to name a session, and which one is used by default",
        text: "\
A session is one line of work: a conversation with its tool calls, tasks and file changes. Its id
never changes, whichever process works on it.

Commands that show a session, and `resume`, take it as their first argument; every command takes it
with -s. You can name it by
  - its short id, as shown in lists: k3x9ab, or the start of it
  - its whole id
  - its name: the title, else the first prompt, or the start of it
  - your own key: my-agent/ticket-42
Commands that write to a session or change files need the whole name.

Without a name, a command uses $ABIDE_SESSION, else the latest session of this project, and prints
its choice on stderr. The latest is the one with the latest activity, the first of `abide ls`.
Commands about files (save, diff, rewind, undo, redo) use the latest that works in this directory.
-A includes the sessions of all projects.
",
    },
    HelpTopic {
        name: "places",
        about: "How to name a place in a session: a checkpoint, a turn, an event",
        text: "\
WHERE, in `rewind`, `diff`, `fork` and `context --at`, is one of
  3            checkpoint 3, as `abide saves` numbers them
  \"it works\"   the checkpoint with this label
  latest       the newest checkpoint that can be read
  turn:3       the end of turn 3
  @41          after event 41, as `abide search` and `abide tail` number them
  decision     after the last decision of an arbiter, which chooses the next agent

For a place without its own checkpoint, the files of the nearest checkpoint before it are used. The
preview says which one.
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
  4. store = \"…\" in abide/config.toml in your settings directory
  5. your own store, $XDG_DATA_HOME/abide/store (~/.local/share/abide/store)

Your own store holds the sessions of all your projects, and is created by the first recording. A
project is identified by its git remote and first commit, so its clones and worktrees share their
sessions. `abide store path` prints where the store is. `abide copy` copies sessions to another
store.
",
    },
    HelpTopic {
        name: "options",
        about: "The options that every command has",
        text: "  --store DIR|URL      the store: a directory, or postgres://USER@HOST/DATABASE (`abide help store`)
  -A, --all-projects   include the sessions of all projects in the store, not only of this one
  --take-over          take a session away from a process on another machine; the next write of that
                       process is refused
  --wait TIME          how long to wait for a session that another process holds and for which it
                       does not answer: 500ms, 2s, 1m [default: 2s]
  -h, --help           a short or the whole help of the command
  -V, --version        the version, without a command
",
    },
    HelpTopic {
        name: "environment",
        about: "The variables that abide reads and those it sets for agents",
        text: "\
Read:
  ABIDE_STORE      the store, as --store
  ABIDE_SESSION    the session that commands use by default
  ABIDE_TASK, ABIDE_LANE
                   the task and the lane that recorded events belong to
  ABIDE_PAGER, PAGER
                   the program that shows long text (default: less)
  NO_COLOR, TERM   no colours if NO_COLOR is set or TERM is dumb
  XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME
                   the directories of stores, notes, caches and settings
  PGUSER, PGPASSWORD, AWS_…
                   the credentials of a shared store

Set by `abide run`, `abide resume` and `abide acp` for the agent they start: ABIDE_STORE,
ABIDE_SESSION, ABIDE_TASK and ABIDE_LANE, so that programs which the agent starts record into the
same session.
",
    },
    HelpTopic {
        name: "exit-codes",
        about: "What the exit code of a command means",
        text: "  0    done
  1    failed; the error says why. `run`: a task failed or cannot be started.
       `doctor`: errors were found. `record`: a line was refused
  2    the command line is invalid
  3    the reader of the output closed it (broken pipe)
  4    cancelled: by Ctrl-C, SIGTERM, or \"no\" to a question
  255  a bug in abide; please report it

With --json, an error is one line of JSON on stdout:
{\"error\":{\"code\":…,\"message\":…,\"hint\":…}}. The exit codes are the same.
",
    },
    HelpTopic {
        name: "held",
        about: "What you can do while an agent works on a session",
        text: "\
Only one process at a time writes to a session: `abide run`, `abide resume`, `abide acp` or a long
`abide record` holds it. Meanwhile:
  - commands that only read (ls, search, show, status, tail, diff, export, share, context) work
  - save, tasks, rename, record and rewinds of files go through the process that holds the session
  - a rewind of the conversation is refused, because the agent has it in memory. End the agent first

If the process that holds the session does not answer, commands wait for 2 seconds, or as long as
--wait says.
",
    },
];
