//! Task list documents: the tasks of a session as people and other systems write them.
//!
//! A [`TaskList`] is read from a document (the PRP form of `tasks.json`, a Markdown task list, TOML,
//! plain JSON), written in any of these formats, turned into events, and compared with the task
//! list of an older session, so that finished work is not repeated. Everything here is pure: bytes
//! in, values out. Fields of another system that abide does not know are kept.
//!
//! ```
//! use abide_plan::{TaskList, TaskListForm, delta};
//! use abide_model::TaskStatus;
//!
//! let old = TaskList::read(TaskListForm::Markdown, b"## Parser\n- [x] Lines\n- [ ] Ends\n")?;
//! let new = TaskList::read(TaskListForm::Markdown, b"## Parser\n- [ ] Lines\n- [ ] Tabs\n- [ ] Ends\n")?;
//! let delta = delta(&old, new);
//! assert_eq!(delta.added.len(), 1);
//! let lines = delta.plan.tasks.iter().find(|task| task.title == "Lines").unwrap();
//! assert_eq!(lines.status, TaskStatus::Complete);
//! # Ok::<(), abide_plan::TaskListError>(())
//! ```

mod answer;
mod arrange;
mod content;
mod delta;
mod draft;
mod error;
mod json;
mod mark_digits;
mod markdown;
mod matching;
mod recorded;
mod removal;
mod session_task_list;
mod status;
mod status_edit;
mod task_list;
mod task_list_form;
#[cfg(test)]
mod tests;
mod toml;

pub use answer::{ANSWER_SCHEMA, MAX_ANSWER_BYTES};
pub use arrange::{MAX_BYTES, MAX_DEPTH, MAX_TASKS};
pub use delta::{TaskListDelta, delta};
pub use error::{TaskListError, TaskListFault};
pub use removal::REMOVED;
pub use session_task_list::TaskListEvents;
pub use task_list::{DocumentTask, TaskList};
pub use task_list_form::TaskListForm;

/// The SHA-256 of a document, in lower-case hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
