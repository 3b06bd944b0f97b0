//! The tables. Any change here, or to what is stored in them, requires a new [`VERSION`].
//!
//! Texts are not stored, only their words: the text of a hit is read from the journal. A text's row
//! id combines its session's row and its event's seq, so no table maps texts to events, and the
//! newest texts come last. Beside its words, a text has the parts of its words, and words that no text
//! contains: for its project, for who said it and what failed, and for commands.

/// The SQLite application id, "abid".
pub(crate) const APPLICATION: i32 = 0x6162_6964;
/// The version of the tables and their contents.
pub(crate) const VERSION: i32 = 6;

pub(crate) const TABLES: &str = "
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    id TEXT NOT NULL,
    short TEXT NOT NULL,
    project TEXT NOT NULL,
    workspace TEXT NOT NULL,
    empty INTEGER NOT NULL,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    watched INTEGER NOT NULL,
    files INTEGER NOT NULL,
    overview TEXT NOT NULL,
    place TEXT NOT NULL
);
CREATE INDEX sessions_by_update ON sessions (updated, row);
CREATE INDEX sessions_by_short ON sessions (short);
CREATE INDEX sessions_by_project ON sessions (project, updated, row);
CREATE INDEX sessions_of_project ON sessions (project, empty, id);
CREATE INDEX sessions_begun ON sessions (id) WHERE empty = 0;
CREATE INDEX sessions_begun_in_workspace ON sessions (workspace, project, id) WHERE empty = 0;
CREATE INDEX sessions_watched ON sessions (row) WHERE watched;
CREATE TABLE labels (
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;
CREATE INDEX labels_by_name ON labels (name, value);
CREATE TABLE agents (
    session INTEGER NOT NULL,
    agent TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (agent, session)
) WITHOUT ROWID;
CREATE TABLE turns (
    session INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    status TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER,
    tool_calls INTEGER NOT NULL,
    decision TEXT,
    reason TEXT,
    PRIMARY KEY (session, turn)
) WITHOUT ROWID;
CREATE TABLE open_turns (
    session INTEGER NOT NULL,
    lane TEXT NOT NULL,
    first INTEGER NOT NULL,
    turn INTEGER,
    PRIMARY KEY (session, lane, first)
) WITHOUT ROWID;
CREATE TABLE paths (
    row INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);
CREATE TABLE files (
    path INTEGER NOT NULL,
    session INTEGER NOT NULL,
    op TEXT NOT NULL,
    count INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    turn INTEGER,
    at INTEGER NOT NULL,
    PRIMARY KEY (session, path, op)
) WITHOUT ROWID;
CREATE INDEX files_by_path ON files (path, session);
CREATE TABLE usage (
    id TEXT NOT NULL,
    session INTEGER NOT NULL,
    span INTEGER NOT NULL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    PRIMARY KEY (id, session, span, model)
) WITHOUT ROWID;
CREATE INDEX usage_by_session ON usage (session);
CREATE TABLE text_times (
    text INTEGER PRIMARY KEY,
    at INTEGER NOT NULL
);
CREATE VIRTUAL TABLE texts USING fts5 (text, parts, traits, content='', tokenize='ascii');
";

/// A project's id as a single token that no text contains: every character that is not a letter or
/// digit is replaced by one without meaning. It narrows a search to the project's texts; two
/// projects may share a token.
pub(crate) fn project_word(project: &str) -> String {
    let stand_in = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        c => char::from_u32(0xE100 + (u32::from(c) & 0xFF)).unwrap_or('\u{E000}'),
    };
    std::iter::once('\u{E000}').chain(project.chars().map(stand_in)).collect()
}

/// How many bits of a text's row id hold its seq.
const SEQ_BITS: u32 = 32;

/// A text's row id: its session's row and its event's seq. `None` if they do not fit.
pub(crate) fn text_number(row: i64, seq: u64) -> Option<i64> {
    let seq = i64::try_from(seq).ok().filter(|seq| *seq < 1 << SEQ_BITS)?;
    (0..1 << (63 - SEQ_BITS)).contains(&row).then_some((row << SEQ_BITS) | seq)
}

/// The session's row and the seq of a text's row id.
pub(crate) fn text_place(number: i64) -> (i64, u64) {
    let seq = number & ((1 << SEQ_BITS) - 1);
    (number >> SEQ_BITS, seq.unsigned_abs())
}
