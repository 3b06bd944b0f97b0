//! The objects with known fields inside the data of events.

use super::{FieldDescription, RecordDescription, ValueType, defaulted, optional, required};

/// The words of a session's status.
pub(super) const SESSION_STATUS: ValueType =
    ValueType::Word(&["pending", "running", "idle", "interrupted", "completed", "failed"]);

/// The words of a task's status.
pub(super) const TASK_STATUS: ValueType = ValueType::Word(&[
    "planned",
    "researching",
    "implementing",
    "retrying",
    "complete",
    "failed",
    "blocked",
    "obsolete",
]);

/// The words of the type of a dependency.
pub(super) const DEPENDENCY_TYPE: ValueType =
    ValueType::OpenWord(&["blocks", "needs-result", "soft"]);

/// A list of strings.
pub(super) const TEXTS: ValueType = ValueType::List(&ValueType::Text);

/// A list of counts.
pub(super) const COUNTS: ValueType = ValueType::List(&ValueType::COUNT);

/// A list of pairs of strings.
pub(super) const TEXT_PAIRS: ValueType =
    ValueType::List(&ValueType::Tuple(&[ValueType::Text, ValueType::Text]));

/// A list of ranges of events.
pub(super) const RANGES: ValueType =
    ValueType::List(&ValueType::Tuple(&[ValueType::COUNT, ValueType::COUNT]));

pub(super) static USAGE: RecordDescription = RecordDescription {
    name: "usage",
    meaning: "Tokens and cost.",
    fields: &[
        defaulted("input_tokens", ValueType::COUNT, "Input tokens, those of the cache included."),
        defaulted("output_tokens", ValueType::COUNT, "Output tokens, reasoning included."),
        defaulted(
            "cache_read_tokens",
            ValueType::COUNT,
            "Input tokens read from the provider's cache.",
        ),
        defaulted(
            "cache_write_tokens",
            ValueType::COUNT,
            "Input tokens written to the provider's cache.",
        ),
        defaulted("reasoning_tokens", ValueType::COUNT, "Output tokens spent on reasoning."),
        defaulted("cost_micros", ValueType::COUNT, "Cost in millionths of a US dollar."),
    ],
};

pub(super) static GIT_STATE: RecordDescription = RecordDescription {
    name: "git state",
    meaning: "The state of a git repository.",
    fields: &[
        optional("branch", ValueType::Text, "The branch; absent if HEAD is detached."),
        optional("head", ValueType::Text, "The commit at HEAD; absent before the first commit."),
        defaulted("staged", TEXTS, "Staged paths."),
        defaulted("modified", TEXTS, "Modified paths."),
        defaulted("untracked", TEXTS, "Untracked paths."),
        defaulted("renamed", TEXT_PAIRS, "Renamed paths, old and new."),
        optional("error", ValueType::Text, "Why the state could not be read."),
    ],
};

pub(super) static RESOURCES: RecordDescription = RecordDescription {
    name: "resources",
    meaning: "What the agent's processes use.",
    fields: &[
        defaulted("processes", ValueType::COUNT, "Number of processes."),
        defaulted("rss_bytes", ValueType::COUNT, "Resident memory in bytes."),
        defaulted("cpu_ms", ValueType::COUNT, "Processor time so far, in milliseconds."),
    ],
};

pub(super) static PARENT: RecordDescription = RecordDescription {
    name: "parent",
    meaning: "The parent of a session.",
    fields: &[
        required("session", ValueType::SessionId, "The parent."),
        required("seq", ValueType::COUNT, "The last event that both share."),
        required(
            "reason",
            ValueType::Word(&["fork", "delta"]),
            "`fork`: it continues the parent's past; `delta`: it has an edited version of its task list.",
        ),
    ],
};

pub(super) static SOURCE: RecordDescription = RecordDescription {
    name: "source document",
    meaning: "The document a session was created from.",
    fields: &[
        required("path", ValueType::Text, "Its path."),
        required("sha256", ValueType::Text, "Its SHA-256."),
    ],
};

pub(super) static PERMISSION_OPTION: RecordDescription = RecordDescription {
    name: "permission option",
    meaning: "A possible answer to a request for permission.",
    fields: &[
        defaulted("id", ValueType::Text, "Its id."),
        defaulted("name", ValueType::Text, "Its label for the user."),
        defaulted(
            "kind",
            ValueType::Text,
            "`allow_once`, `allow_always`, `reject_once`, `reject_always`, or another word.",
        ),
    ],
};

pub(super) static COUNTS_OF_ARTIFACT: RecordDescription = RecordDescription {
    name: "artifact counts",
    meaning: "What a test or a build counted. A count that is not known is absent.",
    fields: &[
        optional("passed", ValueType::COUNT, "Tests that passed."),
        optional("failed", ValueType::COUNT, "Tests that failed."),
        optional("skipped", ValueType::COUNT, "Tests that were not run."),
        optional(
            "errors",
            ValueType::COUNT,
            "Errors of a compiler, and tests that could not be loaded.",
        ),
        optional("warnings", ValueType::COUNT, "Warnings."),
    ],
};

static MANIFEST_TASK: RecordDescription = RecordDescription {
    name: "manifest task",
    meaning: "A task in progress.",
    fields: &[
        defaulted("task", ValueType::Text, "Its id."),
        defaulted("title", ValueType::Text, "Its title, at most 200 characters."),
        defaulted("status", TASK_STATUS, "Its status."),
    ],
};

static DEPENDENCY: RecordDescription = RecordDescription {
    name: "dependency",
    meaning: "A dependency of a task.",
    fields: &[
        defaulted("task", ValueType::Text, "The task."),
        defaulted("on", ValueType::Text, "The task that it depends on."),
        defaulted("type", DEPENDENCY_TYPE, "The type of the dependency."),
    ],
};

pub(super) static MANIFEST: RecordDescription = RecordDescription {
    name: "manifest",
    meaning: "Counts as of a checkpoint, and what was under way.",
    fields: &[
        defaulted("total_tasks", ValueType::COUNT, "Tasks in all."),
        defaulted("completed_tasks", ValueType::COUNT, "Completed tasks."),
        defaulted("active_tasks", ValueType::COUNT, "Tasks in progress."),
        defaulted(
            "file_modifications",
            ValueType::COUNT,
            "Files written, deleted or renamed so far.",
        ),
        defaulted("messages", ValueType::COUNT, "Messages so far."),
        defaulted("storage_bytes", ValueType::COUNT, "The session's size on disk."),
        defaulted("dependencies", ValueType::COUNT, "Dependencies between tasks."),
        defaulted(
            "active",
            ValueType::List(&ValueType::Record(&MANIFEST_TASK)),
            "The tasks in progress, at most 200.",
        ),
        defaulted(
            "depends",
            ValueType::List(&ValueType::Record(&DEPENDENCY)),
            "What tasks that are not done depend on, at most 200.",
        ),
    ],
};

pub(super) static WORKSPACE_COUNTS: RecordDescription = RecordDescription {
    name: "workspace",
    meaning: "What a snapshot of the files holds.",
    fields: &[
        defaulted("root", ValueType::Text, "The directory it was taken of."),
        defaulted("files", ValueType::COUNT, "Files and symbolic links."),
        defaulted("bytes", ValueType::COUNT, "Their size in bytes."),
        defaulted(
            "omitted",
            ValueType::COUNT,
            "Files and directories left out: too large, special or unreadable.",
        ),
        defaulted(
            "stored",
            ValueType::Tuple(&[ValueType::COUNT, ValueType::COUNT]),
            "The number of new objects, and their size in the store.",
        ),
    ],
};

pub(super) static FILE_CHANGES: RecordDescription = RecordDescription {
    name: "file changes",
    meaning: "How the files of a checkpoint differ from those of the one before.",
    fields: &[
        defaulted("added", ValueType::COUNT, "Files and empty directories that were not there."),
        defaulted("changed", ValueType::COUNT, "Files whose content, mode or type changed."),
        defaulted(
            "removed",
            ValueType::COUNT,
            "Files and empty directories that are not there any more.",
        ),
    ],
};

pub(super) static MARKS: RecordDescription = RecordDescription {
    name: "marks",
    meaning: "What abide notes about a message. It is never sent to a model.",
    fields: &[
        optional(
            "form",
            ValueType::OpenWord(&["abide", "anthropic", "openai", "responses"]),
            "The form of the message, if its fields do not tell.",
        ),
        optional("answer", ValueType::Text, "The answer that it is a part of."),
        optional("partial", ValueType::Flag, "The message was cut off."),
        optional(
            "replaces",
            ValueType::COUNT,
            "The seq of the earlier message that this one replaces: only the newest is shown.",
        ),
        optional(
            "provisional",
            ValueType::Flag,
            "A hook of the agent told the message. It is replaced by the record of the agent's own file.",
        ),
        optional(
            "source",
            ValueType::Record(&SOURCE_RECORD),
            "The record of an agent's own file that the message stands in.",
        ),
        optional(
            "redacted",
            ValueType::Record(&REDACTED),
            "The secrets in whose place marks are recorded. Data of any kind may have it.",
        ),
    ],
};

static REDACTED: RecordDescription = RecordDescription {
    name: "redacted secrets",
    meaning: "The secrets in an event in whose place marks are recorded.",
    fields: &[
        optional("bytes", ValueType::COUNT, "The length of the data before, in bytes."),
        optional("rules", ValueType::Map(&ValueType::COUNT), "The number of marks by rule."),
    ],
};

/// The fields of a record of an agent's own file.
pub(super) const SOURCE_FIELDS: [FieldDescription; 9] = [
    required("file", ValueType::Text, "The file, by its name within the session."),
    required(
        "at",
        ValueType::COUNT,
        "Where the record begins in the file; for a database, the number of the row.",
    ),
    required("bytes", ValueType::COUNT, "Its length in bytes, as it stood in the file."),
    optional("sort", ValueType::Text, "What sort of record it is, in the agent's words."),
    optional("id", ValueType::Text, "Its own id."),
    optional("record", ValueType::Json, "The record."),
    optional(
        "message",
        ValueType::Text,
        "The field of the record that is `null` here, because its value is the message.",
    ),
    optional("text", ValueType::Text, "The bytes, if they are not JSON, as text."),
    optional("base64", ValueType::Text, "The bytes in base64, if they are not text either."),
];

static SOURCE_RECORD: RecordDescription = RecordDescription {
    name: "source record",
    meaning: "A record of an agent's own file, with all its bytes.",
    fields: &SOURCE_FIELDS,
};
