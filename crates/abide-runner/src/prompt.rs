//! The prompts for an agent: its task, and what was done before.

use abide::tasks::{TaskDocuments, TaskTree};

/// The most characters of a reason or an account.
const MOST: usize = 12_000;
/// The most bytes of all documents of a task: a prompt may be an argument, and the length of those is
/// limited in bytes.
const DOCUMENTS: usize = 60_000;

/// What is known of a task beyond the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskBriefing {
    pub(crate) details: Option<String>,
    pub(crate) documents: TaskDocuments,
    pub(crate) check: Option<String>,
}

/// The prompt for a task.
pub(crate) fn task(tree: &TaskTree, id: &str, told: &TaskBriefing) -> String {
    let path = tree.title_path(id);
    let title = path.last().copied().unwrap_or(id);
    let mut text = format!("Task {id}: {title}\n");
    if path.len() > 1 {
        let above: Vec<&str> = path.iter().take(path.len() - 1).copied().collect();
        text.push_str(&format!("\nPart of: {}\n", above.join(" > ")));
    }
    if let Some(details) = &told.details {
        text.push_str(&format!("\n{}\n", details.trim_end()));
    }
    if !told.documents.names.is_empty() {
        text.push_str("\nDocuments:\n");
        for document in &told.documents.names {
            text.push_str(&format!("- {document}\n"));
        }
    }
    push_document_texts(&mut text, id, &told.documents);
    if let Some(check) = &told.check {
        text.push_str(&format!("\nIt is done when this command succeeds: {check}\n"));
    }
    text
}

/// Adds the texts of documents that are stored with a task, as far as they fit.
fn push_document_texts(text: &mut String, id: &str, documents: &TaskDocuments) {
    let mut room = DOCUMENTS;
    let mut left_out = 0;
    for name in &documents.names {
        let Some(document) = documents.texts.get(name) else { continue };
        let mut ends = (0..=room.min(document.len())).rev();
        let end = ends.find(|end| document.is_char_boundary(*end)).unwrap_or_default();
        let part = document.get(..end).unwrap_or_default();
        left_out += document.len() - part.len();
        // What does not fit ends the texts: the room that is left is less than a character.
        room = if part.len() < document.len() { 0 } else { room - part.len() };
        if !part.is_empty() {
            text.push_str(&format!("\nDocument {name}:\n\n{}\n", part.trim_end()));
        }
    }
    if left_out > 0 {
        text.push_str(&format!(
            "\n{left_out} bytes of the documents are left out; `abide tasks document {id}` prints \
             all of them.\n"
        ));
    }
}

/// The prompt for an agent that continues inside its own session, where it knows its task.
pub(crate) fn inside(task: &str) -> String {
    format!(
        "You were interrupted while you worked on the task below. Look at what is done already, \
         then go on and finish it.\n\n{task}"
    )
}

/// The prompt for an agent that knows nothing of what was done before.
pub(crate) fn outside(task: &str, account: &str) -> String {
    format!(
        "{task}\nAn earlier attempt at this task was interrupted. What it did so far, as recorded \
         (look at the files before you trust it, and do not do again what is done):\n\n{}\n",
        clip(account)
    )
}

/// The prompt for an agent whose last attempt failed.
pub(crate) fn again(task: &str, reason: &str, output: Option<&str>) -> String {
    let mut text = format!("{task}\nThe last attempt at this task failed: {}\n", clip(reason));
    if let Some(output) = output.map(str::trim_end).filter(|output| !output.is_empty()) {
        // The end of it says most.
        let over = output.chars().count().saturating_sub(MOST);
        let end: String = output.chars().skip(over).collect();
        text.push_str(&format!("\nThe check printed:\n\n{end}\n"));
    }
    text
}

/// The prompt for a task of a session whose conversation the agent does not know.
pub(crate) fn primed(primer: &str, task: &str) -> String {
    format!("{primer}\n{task}")
}

/// The prompt for an agent that goes on with a conversation: what it does not know of it, and what
/// the user says now.
pub(crate) fn conversation(told: &str, own: Option<&str>) -> String {
    let now = own.unwrap_or(
        "The user has resumed this session and says nothing more: look at what is done already, \
         then go on with what is open.",
    );
    if told.is_empty() { format!("{now}\n") } else { format!("{}\n\n{now}\n", told.trim_end()) }
}

fn clip(text: &str) -> String {
    text.chars().take(MOST).collect()
}

/// Whether an argument contains the prompt, so that it is not written to stdin.
pub(crate) fn is_held(command: &[String]) -> bool {
    let held = |argument: &String| argument.contains("{task}") || argument.contains("{prompt}");
    command.iter().any(held)
}

/// The command with its placeholders filled in.
pub(crate) fn fill(command: &[String], id: &str, title: &str, prompt: &str) -> Vec<String> {
    let names = [("{task}", prompt), ("{prompt}", prompt), ("{id}", id), ("{title}", title)];
    command.iter().map(|argument| substitute(argument, &names)).collect()
}

/// Replaces each placeholder. Inserted text is not searched again.
fn substitute(argument: &str, names: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match names.iter().find(|(name, _)| from.starts_with(name)) {
            Some((name, text)) => {
                out.push_str(text);
                rest = from.get(name.len()..).unwrap_or_default();
            }
            None => {
                out.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_as_far_as_they_fit() {
        let mut documents = TaskDocuments::default();
        documents.store("a.md", "first\n");
        documents.names.push("b.md".to_owned());
        let told = |documents: &TaskDocuments| {
            let mut text = String::new();
            push_document_texts(&mut text, "P1", documents);
            text
        };
        assert_eq!(told(&documents), "\nDocument a.md:\n\nfirst\n");
        // Two bytes each; one byte of room is left after the last that fits.
        documents.store("a.md", "first\n!");
        documents.store("c.md", "é".repeat(DOCUMENTS / 2));
        documents.store("d.md", "x");
        let long = told(&documents);
        let fits = "é".repeat(DOCUMENTS / 2 - 4);
        assert!(long.contains(&format!("\nDocument c.md:\n\n{fits}\n")));
        assert!(!long.contains("Document d.md"));
        assert!(long.len() < DOCUMENTS + 200, "{}", long.len());
        assert!(long.ends_with("\n9 bytes of the documents are left out; `abide tasks document P1` prints all of them.\n"));
    }

    #[test]
    fn a_task_takes_its_place_once() {
        let command: Vec<String> =
            ["agent", "-p", "do {task} of {id}", "{x}", "{"].map(str::to_owned).into();
        let filled = fill(&command, "T1", "Title {task}", "the {id} task");
        assert!(is_held(&command));
        assert_eq!(filled, ["agent", "-p", "do the {id} task of T1", "{x}", "{"]);
        let command = ["agent", "{title}"].map(str::to_owned);
        assert!(!is_held(&command));
        assert_eq!(fill(&command, "T1", "x", "y"), ["agent", "x"]);
        let command = ["agent", "{prompt}"].map(str::to_owned);
        assert!(is_held(&command));
        assert_eq!(fill(&command, "T1", "x", "y"), ["agent", "y"]);
    }
}
