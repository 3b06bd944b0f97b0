//! The symbol and the colour of a task by its status.

use abide::TaskStatus;

use crate::text_table::TableColour;

/// The symbol of a status.
pub(crate) const fn task_mark(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Planned => "[ ]",
        TaskStatus::Researching | TaskStatus::Implementing | TaskStatus::Retrying => "[~]",
        TaskStatus::Complete => "[x]",
        TaskStatus::Failed => "[!]",
        TaskStatus::Blocked => "[#]",
        TaskStatus::Obsolete => "[-]",
    }
}

/// The colour of a status.
pub(crate) const fn task_mark_colour(status: TaskStatus) -> TableColour {
    match status {
        TaskStatus::Planned => TableColour::Plain,
        TaskStatus::Researching | TaskStatus::Implementing | TaskStatus::Retrying => {
            TableColour::Cyan
        }
        TaskStatus::Complete => TableColour::Green,
        TaskStatus::Failed => TableColour::Red,
        TaskStatus::Blocked => TableColour::Yellow,
        TaskStatus::Obsolete => TableColour::Dim,
    }
}
