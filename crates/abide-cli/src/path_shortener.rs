//! Shortens the paths of this machine in what is shown to others: those in the workspace are made
//! relative, those in the home directory start with `~`.

use std::borrow::Cow;
use std::path::Path;

use abide::{Event, Payload};
use abide_transcript::SessionOverview;

/// Shortens paths in texts and events.
#[derive(Debug, Default)]
pub(crate) struct PathShortener {
    rules: Vec<ShortenedPath>,
}

#[derive(Debug)]
struct ShortenedPath {
    /// The directory, without a slash at its end.
    directory: String,
    /// What stands for the directory itself.
    itself: &'static str,
    /// What stands for the directory and a slash.
    inside: &'static str,
}

impl PathShortener {
    /// Shortens paths in this workspace and this home directory.
    pub(crate) fn new(workspace: Option<&str>, home: Option<&Path>) -> Self {
        let workspace = workspace.map(|path| (path.to_owned(), ".", ""));
        let home = home.map(|path| (path.to_string_lossy().into_owned(), "~", "~/"));
        let mut rules = Vec::new();
        for (directory, itself, inside) in workspace.into_iter().chain(home) {
            let directory = directory.trim_end_matches('/').to_owned();
            if directory.starts_with('/') && directory.len() > 1 {
                rules.push(ShortenedPath { directory, itself, inside });
            }
        }
        // A workspace in the home directory comes before it.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.directory.len()));
        Self { rules }
    }

    /// A text with its paths shortened.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for rule in &self.rules {
            if text.contains(&rule.directory) {
                text = Cow::Owned(rule.shorten(&text));
            }
        }
        text
    }

    /// Shortens the paths in an event's data. A path is the same in JSON, unless it has characters
    /// that JSON escapes: then it is found as it is escaped.
    pub(crate) fn event(&self, event: &mut Event) {
        let Some(data) = &event.data else { return };
        if let Cow::Owned(text) = self.text(data.as_str()) {
            event.data = Some(Payload::from_stored(text.into()));
        }
    }

    /// Shortens the paths in an overview.
    pub(crate) fn overview(&self, overview: &mut SessionOverview) {
        let texts = [&mut overview.title, &mut overview.reason, &mut overview.summary];
        for text in texts.into_iter().flatten() {
            *text = self.text(text).into_owned();
        }
        for (name, value) in &mut overview.fields {
            // The workspace itself is the place that everything is relative to.
            *value = match *name {
                "Workspace" | "Project" => self.home_only(value),
                _ => self.text(value).into_owned(),
            };
        }
        for (_, path) in &mut overview.files {
            *path = self.text(path).into_owned();
        }
        for task in &mut overview.tasks {
            task.title = self.text(&task.title).into_owned();
        }
        for change in &mut overview.changes {
            change.diff = self.text(&change.diff).into_owned();
        }
    }

    fn home_only(&self, text: &str) -> String {
        let home = self.rules.iter().find(|rule| rule.itself == "~");
        match home {
            Some(home) if text.contains(&home.directory) => home.shorten(text),
            _ if self.rules.is_empty() => text.to_owned(),
            _ => text.rsplit('/').next().unwrap_or(text).to_owned(),
        }
    }
}

impl ShortenedPath {
    fn shorten(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.directory) {
            let (before, found) = rest.split_at(at);
            let behind = found.get(self.directory.len()..).unwrap_or_default();
            out.push_str(before);
            let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            let begins = !out.ends_with(|c: char| part_of_name(c) || c == '/');
            if begins && let Some(inner) = behind.strip_prefix('/') {
                let end = !inner.starts_with(|c: char| part_of_name(c) || !c.is_ascii());
                out.push_str(if end { self.itself } else { self.inside });
                rest = inner;
            } else if begins && !behind.starts_with(part_of_name) {
                out.push_str(self.itself);
                rest = behind;
            } else {
                out.push_str(&self.directory);
                rest = behind;
            }
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_shortened_and_others_are_not() {
        let paths = PathShortener::new(Some("/home/ada/work/app"), Some(Path::new("/home/ada/")));
        for (text, short) in [
            ("/home/ada/work/app/src/a.rs:3", "src/a.rs:3"),
            ("cd /home/ada/work/app && ls", "cd . && ls"),
            ("cd /home/ada/work/app/ && ls", "cd . && ls"),
            ("\"/home/ada/work/app\"", "\".\""),
            ("/home/ada/work/app2/x", "~/work/app2/x"),
            ("/home/ada", "~"),
            ("/home/adam/x", "/home/adam/x"),
            ("/mnt/home/ada/x", "/mnt/home/ada/x"),
            ("/home/ada/.ssh", "~/.ssh"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(paths.text(text), short, "{text}");
        }
        let none = PathShortener::default();
        assert_eq!(none.text("/home/ada/x"), "/home/ada/x");
    }
}
