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
        let mut at = 0;
        let side = |diff: &mut Self, sign, side: &[Token], from: u32, to: u32| {
            for token in side.get(from as usize..to as usize).unwrap_or_default() {
                diff.push(sign, input.interner[*token]);
            }
        };
        for change in changes.hunks() {
            let start = change.before.start;
            if at == 0 || start.saturating_sub(at) > 2 * AROUND {
                // The lines behind the change before, then those before this one.
                let behind = if at == 0 { 0 } else { (at + AROUND).min(start) };
                side(&mut diff, DiffSign::Same, &input.before, at.min(behind), behind);
                let from = start.saturating_sub(AROUND).max(behind);
                if from > behind {
                    diff.push(DiffSign::Gap, "");
                }
                side(&mut diff, DiffSign::Same, &input.before, from, start);
            } else {
                side(&mut diff, DiffSign::Same, &input.before, at, start);
            }
            side(&mut diff, DiffSign::Removed, &input.before, start, change.before.end);
            side(&mut diff, DiffSign::Added, &input.after, change.after.start, change.after.end);
            at = change.before.end.max(1);
        }
        if !diff.lines.is_empty() {
            let until = at.saturating_add(AROUND).min(end);
            side(&mut diff, DiffSign::Same, &input.before, at, until);
        }
        diff
    }

    /// The changes in a patch: a unified diff, or the form that `apply_patch` takes.
    pub(crate) fn of_patch(patch: &str) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        let begin = |files: &mut Vec<Self>, path: &str| {
            files.push(Self { path: path.trim().to_owned(), lines: Vec::new() });
        };
        for line in patch.lines() {
            let named = ["*** Update File: ", "*** Add File: ", "*** Delete File: "]
                .iter()
                .find_map(|name| line.strip_prefix(name));
            if let Some(path) = named {
                begin(&mut files, path);
            } else if let Some(path) = line.strip_prefix("+++ ") {
                let path = path.split('\t').next().unwrap_or_default();
                let path = path.strip_prefix("b/").unwrap_or(path);
                match files.last_mut().filter(|file| file.lines.is_empty()) {
                    Some(_) if path == "/dev/null" => {}
                    Some(file) => file.path = path.to_owned(),
                    None => begin(&mut files, path),
                }
            } else if let Some(path) = line.strip_prefix("--- ") {
                let path = path.split('\t').next().unwrap_or_default();
                begin(&mut files, path.strip_prefix("a/").unwrap_or(path));
            } else if let Some(to) = line.strip_prefix("*** Move to: ") {
                if let Some(file) = files.last_mut() {
                    file.path = format!("{} → {}", file.path, to.trim());
                }
            } else if let Some(file) = files.last_mut() {
                if let Some(heading) = line.strip_prefix("@@") {
                    let heading = heading.rsplit("@@").next().unwrap_or_default().trim();
                    if !file.lines.is_empty() || !heading.is_empty() {
                        file.push(DiffSign::Gap, heading);
                    }
                } else if let Some(text) = line.strip_prefix('+') {
                    file.push(DiffSign::Added, text);
                } else if let Some(text) = line.strip_prefix('-') {
                    file.push(DiffSign::Removed, text);
                } else if let Some(text) = line.strip_prefix(' ') {
                    file.push(DiffSign::Same, text);
                } else if line.is_empty() && !file.lines.is_empty() {
                    file.push(DiffSign::Same, "");
                }
            }
        }
        files
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
    }
}
