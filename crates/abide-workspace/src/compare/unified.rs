//! Unified diffs in git's format, usable with `git apply`.

use std::ops::Range;

use abide_model::Objects;
use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::compare::read::{ReadError, read_content};
use crate::compare::rename::{LEAST, similarity};
use crate::{ChangeKind, ChangedPath, EntryKind, TreeEntry};

/// Larger files are not compared line by line.
const MAX_SIZE: u64 = 8 * 1024 * 1024;
/// A zero byte among this many leading bytes makes a file binary, as in git.
const BINARY_HEAD: usize = 8000;
/// Maximum length of a hunk heading.
const HEADING: usize = 80;

/// Number of lines that a change adds and removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiffStat {
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// The content is binary or too large to compare by lines.
    pub binary: bool,
}

/// One change as a diff. File contents appear as raw bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileDiff {
    /// Headers and hunks. Empty for a directory.
    pub text: Vec<u8>,
    /// Lines added and removed.
    pub stat: DiffStat,
}

/// Formats a change as a unified diff with `context` lines around each hunk.
pub fn unified(
    objects: &dyn Objects,
    changed: &ChangedPath,
    context: usize,
) -> Result<FileDiff, ReadError> {
    let mut diff = FileDiff::default();
    for part in unified_parts(changed) {
        part.write(objects, context, &mut diff)?;
    }
    Ok(diff)
}

/// Counts the lines that a change adds and removes.
pub fn stat(objects: &dyn Objects, changed: &ChangedPath) -> Result<DiffStat, ReadError> {
    let mut stat = DiffStat::default();
    for part in unified_parts(changed) {
        if part.same_content() {
            continue;
        }
        match part.contents(objects)?.filter(is_unified_text) {
            Some((old, new)) => {
                let lines = UnifiedLineDiff::of(&old, &new);
                stat.insertions += u64::from(lines.diff.count_additions());
                stat.deletions += u64::from(lines.diff.count_removals());
            }
            None => stat.binary = true,
        }
    }
    Ok(stat)
}

/// A path on both sides. A change of type gives two: a deletion and a creation.
struct UnifiedPair<'a> {
    from: &'a [u8],
    to: &'a [u8],
    old: Option<&'a TreeEntry>,
    new: Option<&'a TreeEntry>,
}

fn unified_parts(changed: &ChangedPath) -> Vec<UnifiedPair<'_>> {
    let file =
        |entry: &Option<TreeEntry>| entry.as_ref().is_some_and(|e| e.kind != EntryKind::Directory);
    let to = changed.path.as_slice();
    let from = match &changed.change {
        ChangeKind::Renamed { from } => from.as_slice(),
        _ => to,
    };
    let old = changed.old.as_ref().filter(|_| file(&changed.old));
    let new = changed.new.as_ref().filter(|_| file(&changed.new));
    let sides = match changed.change {
        ChangeKind::KindChanged => vec![(old, None), (None, new)],
        _ => vec![(old, new)],
    };
    let sides = sides.into_iter().filter(|(old, new)| old.is_some() || new.is_some());
    sides.map(|(old, new)| UnifiedPair { from, to, old, new }).collect()
}

/// The old and the new content.
type ContentPair = (Vec<u8>, Vec<u8>);

impl UnifiedPair<'_> {
    fn same_content(&self) -> bool {
        matches!((self.old, self.new), (Some(old), Some(new)) if old.hash == new.hash)
    }

    /// Both contents; `None` if either is too large.
    fn contents(&self, objects: &dyn Objects) -> Result<Option<ContentPair>, ReadError> {
        let sides = [self.old, self.new];
        if sides.iter().flatten().any(|entry| entry.size > MAX_SIZE) {
            return Ok(None);
        }
        let read = |entry: Option<&TreeEntry>| {
            entry.map_or(Ok(Vec::new()), |entry| read_content(objects, entry))
        };
        Ok(Some((read(self.old)?, read(self.new)?)))
    }

    fn write(
        &self,
        objects: &dyn Objects,
        context: usize,
        diff: &mut FileDiff,
    ) -> Result<(), ReadError> {
        let (a, b) = (unified_quoted_path(b"a/", self.from), unified_quoted_path(b"b/", self.to));
        let out = &mut diff.text;
        unified_line(out, &[b"diff --git ", &a, b" ", &b]);
        match (self.old, self.new) {
            (None, Some(new)) => unified_line(out, &[b"new file mode ", &unified_mode(new)]),
            (Some(old), None) => unified_line(out, &[b"deleted file mode ", &unified_mode(old)]),
            (Some(old), Some(new)) if unified_mode(old) != unified_mode(new) => {
                unified_line(out, &[b"old mode ", &unified_mode(old)]);
                unified_line(out, &[b"new mode ", &unified_mode(new)]);
            }
            _ => {}
        }
        let contents = if self.same_content() { None } else { self.contents(objects)? };
        if self.from != self.to {
            let alike = match &contents {
                Some((old, new)) => similarity(old, new),
                None if self.same_content() => 100,
                None => LEAST,
            };
            unified_line(out, &[b"similarity index ", alike.to_string().as_bytes(), b"%"]);
            unified_line(out, &[b"rename from ", &unified_quoted_path(b"", self.from)]);
            unified_line(out, &[b"rename to ", &unified_quoted_path(b"", self.to)]);
        }
        if self.same_content() {
            return Ok(());
        }
        let none = b"/dev/null".to_vec();
        let a = if self.old.is_some() { a } else { none.clone() };
        let b = if self.new.is_some() { b } else { none };
        let Some((old, new)) = contents.filter(is_unified_text) else {
            diff.stat.binary = true;
            unified_line(out, &[b"Binary files ", &a, b" and ", &b, b" differ"]);
            return Ok(());
        };
        let lines = UnifiedLineDiff::of(&old, &new);
        diff.stat.insertions += u64::from(lines.diff.count_additions());
        diff.stat.deletions += u64::from(lines.diff.count_removals());
        let hunks = lines.hunks(context);
        if !hunks.is_empty() {
            unified_line(out, &[b"--- ", &a, unified_tab(&a, self.from)]);
            unified_line(out, &[b"+++ ", &b, unified_tab(&b, self.to)]);
        }
        for hunk in &hunks {
            lines.write(hunk, out);
        }
        Ok(())
    }
}

fn unified_line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
    out.push(b'\n');
}

/// A tab follows a name that contains a space, to mark where the name ends.
fn unified_tab(shown: &[u8], path: &[u8]) -> &'static [u8] {
    if shown != b"/dev/null" && path.contains(&b' ') { b"\t" } else { b"" }
}

fn unified_mode(entry: &TreeEntry) -> Vec<u8> {
    match entry.kind {
        EntryKind::Link => b"120000".to_vec(),
        _ => format!("100{:03o}", entry.mode & 0o777).into_bytes(),
    }
}

fn is_unified_text((old, new): &ContentPair) -> bool {
    [old, new].iter().all(|side| !side.get(..BINARY_HEAD).unwrap_or(side).contains(&0))
}

/// A path as git prints it: quoted and escaped if it contains special characters.
fn unified_quoted_path(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if path.iter().all(plain) {
        return [prefix, path].concat();
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix);
    for byte in path {
        let escape = match byte {
            0x07 => b'a',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0b => b'v',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => *byte,
            byte if plain(byte) => {
                out.push(*byte);
                continue;
            }
            byte => {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'"');
    out
}

/// A line diff of two texts.
struct UnifiedLineDiff<'a> {
    input: InternedInput<&'a [u8]>,
    diff: Diff,
}

/// Changes that are printed together, as line ranges in both texts.
struct Hunk {
    before: Range<u32>,
    after: Range<u32>,
    edits: Vec<(Range<u32>, Range<u32>)>,
}

impl<'a> UnifiedLineDiff<'a> {
    fn of(old: &'a [u8], new: &'a [u8]) -> Self {
        let input = InternedInput::new(byte_lines(old), byte_lines(new));
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        Self { input, diff }
    }

    fn hunks(&self, context: usize) -> Vec<Hunk> {
        let context = u32::try_from(context).unwrap_or(u32::MAX);
        let ends = (unified_length(&self.input.before), unified_length(&self.input.after));
        let mut hunks: Vec<Hunk> = Vec::new();
        for edit in self.diff.hunks() {
            let lead = context.min(edit.before.start);
            let before = edit.before.end.saturating_add(context).min(ends.0);
            let after = edit.after.end.saturating_add(context).min(ends.1);
            match hunks.last_mut() {
                Some(last) if edit.before.start - lead <= last.before.end => {
                    last.before.end = before;
                    last.after.end = after;
                    last.edits.push((edit.before, edit.after));
                }
                _ => hunks.push(Hunk {
                    before: edit.before.start - lead..before,
                    after: edit.after.start - lead..after,
                    edits: vec![(edit.before, edit.after)],
                }),
            }
        }
        hunks
    }

    fn write(&self, hunk: &Hunk, out: &mut Vec<u8>) {
        let (before, after) = (&hunk.before, &hunk.after);
        let mut head =
            format!("@@ -{} +{} @@", unified_span(before), unified_span(after)).into_bytes();
        if let Some(heading) = self.heading(before.start) {
            head.push(b' ');
            head.extend_from_slice(heading);
        }
        unified_line(out, &[&head]);
        let mut at = before.start;
        for (old, new) in &hunk.edits {
            self.rows(b' ', &self.input.before, at..old.start, out);
            self.rows(b'-', &self.input.before, old.clone(), out);
            self.rows(b'+', &self.input.after, new.clone(), out);
            at = old.end;
        }
        self.rows(b' ', &self.input.before, at..before.end, out);
    }

    fn rows(&self, sign: u8, side: &[imara_diff::Token], range: Range<u32>, out: &mut Vec<u8>) {
        let range = range.start as usize..range.end as usize;
        for token in side.get(range).unwrap_or_default() {
            let row = self.input.interner[*token];
            out.push(sign);
            out.extend_from_slice(row);
            if !row.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }

    /// The last line before the hunk that looks like the start of a definition.
    fn heading(&self, start: u32) -> Option<&[u8]> {
        let lines = self.input.before.get(..start as usize)?;
        let begins = |row: &&[u8]| {
            row.first().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, b'_' | b'$'))
        };
        let row = lines.iter().rev().map(|token| self.input.interner[*token]).find(begins)?;
        Some(row.get(..HEADING).unwrap_or(row).trim_ascii_end())
    }
}

fn unified_length(side: &[imara_diff::Token]) -> u32 {
    u32::try_from(side.len()).unwrap_or(u32::MAX)
}

/// Start line and line count, as in a hunk header.
fn unified_span(range: &Range<u32>) -> String {
    match range.end - range.start {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        lines => format!("{},{lines}", range.start + 1),
    }
}

#[cfg(test)]
mod tests;
