//! Shortens the paths of this machine in what is shown to others: those in the workspace are made
//! relative, those in the home directory start with `~`.

use std::borrow::Cow;
use std::path::Path;

use abide_transcript::{SessionOverview, TextFilter};

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
    /// Shortens paths in this workspace and this home directory, and in the directories that these
    /// are links to.
    pub(crate) fn new(workspace: Option<&str>, home: Option<&Path>) -> Self {
        let mut directories = Vec::new();
        let mut add = |path: &Path, itself, inside| {
            let real = path.canonicalize().ok().filter(|real| real != path);
            for path in std::iter::once(path).chain(real.as_deref()) {
                directories.push((path.to_string_lossy().into_owned(), itself, inside));
            }
        };
        workspace.into_iter().for_each(|path| add(Path::new(path), ".", ""));
        home.into_iter().for_each(|path| add(path, "~", "~/"));
        let mut rules = Vec::new();
        for (directory, itself, inside) in directories {
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

    /// The filter that does this to the texts of a page.
    pub(crate) fn into_filter(self) -> TextFilter {
        Box::new(move |text| {
            if let Cow::Owned(short) = self.text(text) {
                *text = short;
            }
        })
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

    /// A directory: below the home directory, or its name alone.
    fn home_only(&self, text: &str) -> String {
        let homes = self.rules.iter().filter(|rule| rule.itself == "~");
        let short = homes.fold(text.to_owned(), |text, home| home.shorten(&text));
        match short.starts_with('/') && !self.rules.is_empty() {
            true => short.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned(),
            false => short,
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
            let begins = begins_path(&out);
            match behind.strip_prefix('/') {
                Some(inner) if begins => {
                    let ends = inner.chars().next().is_none_or(ends_path);
                    out.push_str(if ends { self.itself } else { self.inside });
                    rest = inner;
                }
                None if begins && ends_name(behind) => {
                    out.push_str(self.itself);
                    rest = behind;
                }
                _ => {
                    out.push_str(&self.directory);
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// Whether a path can begin behind this text: not in the middle of another one. An option may stand
/// right before it, as in `-I/usr`, and two slashes, as in `file:///usr`.
fn begins_path(before: &str) -> bool {
    if before.ends_with("//") {
        return true;
    }
    let word =
        before.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let name = before.get(word.len()..).unwrap_or_default();
    !word.ends_with('/') && (name.is_empty() || name.starts_with('-'))
}

/// Whether a directory ends before this character, rather than going on with a name in it.
fn ends_path(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | ')' | ']' | '}' | '>' | ',' | ';' | ':' | '|' | '&' | '\\'
        )
}

/// Whether the name of a directory ends before this text: not in a longer name.
fn ends_name(behind: &str) -> bool {
    let mut rest = behind.chars();
    match rest.next() {
        None => true,
        // The end of a sentence, or of an extension.
        Some('.') => rest.next().is_none_or(|c| !c.is_alphanumeric()),
        Some(c) => !(c.is_alphanumeric() || matches!(c, '_' | '-')),
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
            ("a\n/home/ada/work/app/b\t/home/ada/work/app/c", "a\nb\tc"),
            ("/home/ada/work/app/@types/x", "@types/x"),
            ("/home/ada/work/app/(group)/[id]", "(group)/[id]"),
            ("see /home/ada/work/app.", "see .."),
            ("/home/ada/work/app.old/x", "~/work/app.old/x"),
            ("file:///home/ada/work/app/x", "file://x"),
            ("-I/home/ada/work/app/inc", "-Iinc"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(paths.text(text), short, "{text}");
        }
        let none = PathShortener::default();
        assert_eq!(none.text("/home/ada/x"), "/home/ada/x");
    }
}
