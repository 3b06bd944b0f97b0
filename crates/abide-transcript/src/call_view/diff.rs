//! Changes of files, line by line.

use imara_diff::sources::lines;
use imara_diff::{Algorithm, Diff, InternedInput, Token};

/// Lines shown around a change.
const AROUND: u32 = 3;
/// Longer texts are shown as removed and added whole.
const COMPARED: usize = 1 << 20;

/// The change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CallDiff {
    /// The path.
    pub(crate) path: String,
    /// Its lines, in order.
    pub(crate) lines: Vec<DiffLine>,
}

/// A line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffLine {
    /// What became of it.
    pub(crate) sign: DiffSign,
    /// The line without its end.
    pub(crate) text: String,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffSign {
    /// It stayed.
    Same,
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Lines that stayed are left out here; the text is a heading or empty.
    Gap,
}

impl DiffSign {
    /// Its sign in the first column.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Same => " ",
            Self::Added => "+",
            Self::Removed => "-",
            Self::Gap => "…",
        }
    }
}

impl CallDiff {
    /// The change of a text.
    pub(crate) fn between(path: &str, old: &str, new: &str) -> Self {
        let mut diff = Self { path: path.to_owned(), lines: Vec::new() };
        if old.len() + new.len() > COMPARED {
            old.lines().for_each(|line| diff.push(DiffSign::Removed, line));
            new.lines().for_each(|line| diff.push(DiffSign::Added, line));
            return diff;
        }
        let input = InternedInput::new(lines(old), lines(new));
        let mut changes = Diff::compute(Algorithm::Histogram, &input);
        changes.postprocess_lines(&input);
        let end = u32::try_from(input.before.len()).unwrap_or(u32::MAX);
        // The line of the old text behind the change before, if there was one.
        let mut last: Option<u32> = None;
        let side = |diff: &mut Self, sign, side: &[Token], from: u32, to: u32| {
            for token in side.get(from as usize..to as usize).unwrap_or_default() {
                diff.push(sign, input.interner[*token]);
            }
        };
        for change in changes.hunks() {
            let start = change.before.start;
            match last {
                Some(at) if start.saturating_sub(at) <= 2 * AROUND => {
                    side(&mut diff, DiffSign::Same, &input.before, at, start);
                }
                _ => {
                    let behind = last.map_or(0, |at| (at + AROUND).min(start));
                    side(&mut diff, DiffSign::Same, &input.before, last.unwrap_or(0), behind);
                    let from = start.saturating_sub(AROUND).max(behind);
                    if from > behind {
                        diff.push(DiffSign::Gap, "");
                    }
                    side(&mut diff, DiffSign::Same, &input.before, from, start);
                }
            }
            side(&mut diff, DiffSign::Removed, &input.before, start, change.before.end);
            side(&mut diff, DiffSign::Added, &input.after, change.after.start, change.after.end);
            last = Some(change.before.end);
        }
        if let Some(at) = last {
            let until = at.saturating_add(AROUND).min(end);
            side(&mut diff, DiffSign::Same, &input.before, at, until);
        }
        diff
    }

    /// The changes in a patch: a unified diff, or the form that `apply_patch` takes.
    pub(crate) fn of_patch(patch: &str) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        let own_form = patch.contains("*** Begin Patch");
        let mut hunk = PatchHunk::default();
        for line in patch.lines() {
            // Within a hunk a line such as `--- x` is one that was removed.
            if hunk.takes(line) {
                if let Some(file) = files.last_mut() {
                    file.push_signed(line);
                }
                continue;
            }
            let named = ["*** Update File: ", "*** Add File: ", "*** Delete File: "]
                .iter()
                .find_map(|name| line.strip_prefix(name));
            if let Some(path) = named {
                files.push(Self::of_path(path));
            } else if let Some(path) = line.strip_prefix("--- ").filter(|_| !own_form) {
                files.push(Self::of_path(path));
            } else if let Some(path) = line.strip_prefix("+++ ").filter(|_| !own_form) {
                let named = Self::of_path(path);
                match files.last_mut().filter(|file| file.lines.is_empty()) {
                    Some(_) if named.path == "/dev/null" => {}
                    Some(file) => file.path = named.path,
                    None => files.push(named),
                }
            } else if let Some(to) = line.strip_prefix("*** Move to: ") {
                if let Some(file) = files.last_mut().filter(|file| !file.path.contains(" → ")) {
                    file.path = format!("{} → {}", file.path, to.trim());
                }
            } else if let Some(file) = files.last_mut() {
                if let Some(heading) = line.strip_prefix("@@") {
                    hunk = PatchHunk::of(heading);
                    let heading = heading.rsplit("@@").next().unwrap_or_default().trim();
                    if !file.lines.is_empty() || !heading.is_empty() {
                        file.push(DiffSign::Gap, heading);
                    }
                } else {
                    file.push_signed(line);
                }
            }
        }
        files
    }

    /// A file without changes yet, by its path in a header.
    fn of_path(path: &str) -> Self {
        let path = path.split('\t').next().unwrap_or_default().trim();
        let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
        Self { path: path.to_owned(), lines: Vec::new() }
    }

    /// Adds a line that starts with its sign.
    fn push_signed(&mut self, line: &str) {
        if let Some(text) = line.strip_prefix('+') {
            self.push(DiffSign::Added, text);
        } else if let Some(text) = line.strip_prefix('-') {
            self.push(DiffSign::Removed, text);
        } else if let Some(text) = line.strip_prefix(' ') {
            self.push(DiffSign::Same, text);
        } else if line.is_empty() && !self.lines.is_empty() {
            self.push(DiffSign::Same, "");
        }
    }

    fn push(&mut self, sign: DiffSign, line: &str) {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
        self.lines.push(DiffLine { sign, text });
    }

    /// The number of lines of this sign.
    pub(crate) fn count(&self, sign: DiffSign) -> usize {
        self.lines.iter().filter(|line| line.sign == sign).count()
    }
}

/// The lines that a hunk of a unified diff has left, by its heading.
#[derive(Debug, Default)]
struct PatchHunk {
    old: u64,
    new: u64,
}

impl PatchHunk {
    /// Reads ` -1,2 +1,3 @@`; a heading without numbers announces no lines.
    fn of(heading: &str) -> Self {
        let mut words = heading.split_whitespace();
        let mut count = |sign: char| {
            let range = words.next()?.strip_prefix(sign)?;
            range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
        };
        match (count('-'), count('+')) {
            (Some(old), Some(new)) => Self { old, new },
            _ => Self::default(),
        }
    }

    /// Whether the line belongs to the hunk.
    fn takes(&mut self, line: &str) -> bool {
        if self.old == 0 && self.new == 0 {
            return false;
        }
        match line.as_bytes().first() {
            Some(b'+') => self.new = self.new.saturating_sub(1),
            Some(b'-') => self.old = self.old.saturating_sub(1),
            Some(b' ') | None => {
                self.old = self.old.saturating_sub(1);
                self.new = self.new.saturating_sub(1);
            }
            Some(b'\\') => {}
            _ => {
                *self = Self::default();
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(diff: &CallDiff) -> Vec<String> {
        diff.lines.iter().map(|line| format!("{}{}", line.sign.mark(), line.text)).collect()
    }

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n9\n", "\nnine\n").replace("\n20\n", "\n20\n21\n");
        assert_eq!(
            shown(&CallDiff::between("a", &old, &new)),
            [
                "…", " 6", " 7", " 8", "-9", "+nine", " 10", " 11", " 12", "…", " 18", " 19",
                " 20", "+21"
            ]
        );
        assert_eq!(shown(&CallDiff::between("a", "x", "y")), ["-x", "+y"]);
        assert_eq!(
            shown(&CallDiff::between("a", "a\nb\nc\n", "a\nB\nc\n")),
            [" a", "-b", "+B", " c"]
        );
        assert_eq!(shown(&CallDiff::between("a", "a\nb\n", "A\nb\nc\n")), ["-a", "+A", " b", "+c"]);
        assert_eq!(shown(&CallDiff::between("a", "a\nb\n", "X\na\nb\n")), ["+X", " a", " b"]);
        assert!(CallDiff::between("a", "same\n", "same\n").lines.is_empty());
    }

    #[test]
    fn patches_are_read_by_file() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@ fn main\n x\n-y\n+z\n*** Add File: b\n+new\n*** Delete File: c\n*** End Patch\n";
        let files = CallDiff::of_patch(patch);
        let told: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), shown(file).join("|"))).collect();
        assert_eq!(
            told,
            [
                ("a.rs", "…fn main| x|-y|+z".to_owned()),
                ("b", "+new".to_owned()),
                ("c", String::new())
            ]
        );
        let unified = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ mod\n a\n-b\n+c\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
        let files = CallDiff::of_patch(unified);
        let told: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), shown(file).join("|"))).collect();
        assert_eq!(told, [("x", "…mod| a|-b|+c".to_owned()), ("y", "-gone".to_owned())]);
        let comments = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- drop\n+++ add\n x\n";
        let files = CallDiff::of_patch(comments);
        assert_eq!(
            (files.len(), shown(&files[0]).join("|")),
            (1, "--- drop|+++ add| x".to_owned())
        );
    }
}
