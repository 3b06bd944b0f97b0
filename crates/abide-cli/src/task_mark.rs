//! The symbol and the colour of a task by its status.

use abide::TaskStatus;

use crate::text_table::Colour;

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
pub(crate) const fn task_mark_colour(status: TaskStatus) -> Colour {
    match status {
        TaskStatus::Planned => Colour::Plain,
        TaskStatus::Researching | TaskStatus::Implementing | TaskStatus::Retrying => Colour::Cyan,
        TaskStatus::Complete => Colour::Green,
        TaskStatus::Failed => Colour::Red,
        TaskStatus::Blocked => Colour::Yellow,
        TaskStatus::Obsolete => Colour::Dim,
    }
}
