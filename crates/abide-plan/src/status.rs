//! The words for a task's status, ours and those of other systems.

use abide_model::TaskStatus;

use crate::DocumentTask;

/// The status of a word, and the word itself if it is not the one we would write.
pub(crate) fn read_status(
    word: &str,
    own: impl Fn(TaskStatus) -> &'static str,
) -> Option<StatusWord> {
    let plain: String = word
        .chars()
        .filter(|letter| !matches!(letter, ' ' | '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect();
    let status = match plain.as_str() {
        "planned" | "ready" | "pending" | "todo" | "notstarted" => TaskStatus::Planned,
        "researching" => TaskStatus::Researching,
        "implementing" | "inprogress" | "active" => TaskStatus::Implementing,
        "retrying" => TaskStatus::Retrying,
        "complete" | "completed" | "done" => TaskStatus::Complete,
        "failed" => TaskStatus::Failed,
        "blocked" => TaskStatus::Blocked,
        "obsolete" | "cancelled" | "canceled" | "skipped" => TaskStatus::Obsolete,
        _ => return None,
    };
    Some((status, (own(status) != word).then(|| word.to_owned())))
}

/// A status, and another system's word for it.
pub(crate) type StatusWord = (TaskStatus, Option<String>);

/// The word in a `tasks.json`.
pub(crate) const fn prp_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Planned => "Planned",
        TaskStatus::Researching => "Researching",
        TaskStatus::Implementing => "Implementing",
        TaskStatus::Retrying => "Retrying",
        TaskStatus::Complete => "Complete",
        TaskStatus::Failed => "Failed",
        TaskStatus::Blocked => "Blocked",
        TaskStatus::Obsolete => "Obsolete",
    }
}

/// The other system's word for a task's status, if it can be read back.
pub(crate) fn status_word(task: &DocumentTask) -> Option<&str> {
    let word = task.foreign_status.as_deref()?;
    read_status(word, TaskStatus::as_str).filter(|(status, _)| *status == task.status).map(|_| word)
}
