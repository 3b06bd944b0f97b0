//! Ignore files, with git's semantics. Precedence: `.abideignore`, then `.ignore`, `.gitignore`,
//! git's `info/exclude`, and git's global excludes. Among files of one kind the nearest wins, and
//! within a file the last matching line. A `.gitignore` does not apply to a repository nested below
//! it.
//!
//! A [`RulesHash`] is a hash of all rules that apply to a directory. While it is unchanged, ignored
//! names stay ignored and no matcher is needed.

use std::ffi::{CStr, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use abide_model::ObjectHash;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::reserved::{is_alias, is_reserved};
use crate::restore::is_temporary;

/// At most this much of an ignore file is read.
const MAX_TEXT: usize = 4 << 20;

/// A hash of all rules that apply to the names of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RulesHash(pub(crate) [u8; 16]);

impl RulesHash {
    /// The hash of these parts.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; 16]))
    }

    /// The hash for the contents of a directory with this status.
    pub(crate) fn below(self, within: IgnoreStatus) -> Self {
        match within {
            IgnoreStatus::Plain => self,
            IgnoreStatus::Ignored | IgnoreStatus::Included => {
                Self::of([&self.0[..], &[within.code()]])
            }
        }
    }
}

/// Why a directory is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreStatus {
    /// Nothing ignores it.
    Plain,
    /// It is ignored, but the policy may include something in it.
    Ignored,
    /// The policy includes it and everything in it.
    Included,
}

impl IgnoreStatus {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Ignored => 1,
            Self::Included => 2,
        }
    }

    pub(crate) const fn of(code: u8) -> Self {
        match code {
            1 => Self::Ignored,
            2 => Self::Included,
            _ => Self::Plain,
        }
    }
}

/// The kinds of rules that a directory can have, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleFile {
    /// `info/exclude` of the repository rooted here.
    Exclude,
    Git,
    Plain,
    Own,
}

impl RuleFile {
    /// The kinds that are files in the directory.
    pub(crate) const NAMED: [(Self, &'static CStr); 3] =
        [(Self::Git, c".gitignore"), (Self::Plain, c".ignore"), (Self::Own, c".abideignore")];
    const STRONGEST_FIRST: [Self; 2] = [Self::Own, Self::Plain];

    /// The kind of rules in a file with this name.
    pub(crate) fn named(name: &CStr) -> Option<Self> {
        if name.to_bytes().first() != Some(&b'.') {
            return None;
        }
        Self::NAMED.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

/// Returns true for names that are never captured: stores, git's own files, and the leftovers of an
/// interrupted restore. A restore never creates the first two.
pub(crate) fn is_never_taken_by_rules(name: &CStr, native: bool) -> bool {
    let name = name.to_bytes();
    let reserved = if native { is_reserved(name) } else { is_alias(name) };
    reserved || is_temporary(name)
}

/// The hashes of a directory's own rules.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RuleHashes {
    sums: [Option<ObjectHash>; 4],
    repository: bool,
}

impl RuleHashes {
    pub(crate) fn set(&mut self, file: RuleFile, sum: ObjectHash) {
        if let Some(place) = self.sums.get_mut(file as usize) {
            *place = Some(sum);
        }
    }

    /// Marks the directory as the root of a repository with these excludes.
    pub(crate) fn repository(&mut self, exclude: Option<&[u8]>) {
        self.repository = true;
        if let Some(text) = exclude {
            self.set(RuleFile::Exclude, ObjectHash::of(text));
        }
    }

    /// The hash of all rules for the names of the directory.
    pub(crate) fn chain(&self, outer: RulesHash) -> RulesHash {
        if !self.repository && self.sums.iter().all(Option::is_none) {
            return outer;
        }
        let repository = [u8::from(self.repository)];
        let sums = self.sums.iter().map(|sum| sum.as_ref().map_or(&[][..], |sum| &sum.0[..]));
        RulesHash::of([&outer.0[..], &repository].into_iter().chain(sums))
    }
}

/// The text of a directory's own rules.
#[derive(Debug, Default)]
pub(crate) struct RuleTexts {
    texts: [Option<Vec<u8>>; 4],
    repository: bool,
}

impl RuleTexts {
    /// Reads the rules. Links are not followed.
    pub(crate) fn read(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut texts = Self::default();
        for (file, name) in RuleFile::NAMED {
            texts.set(file, read_rules_text(directory, name, OFlags::NOFOLLOW)?);
        }
        texts.read_repository(directory)?;
        Ok(texts)
    }

    /// Reads the excludes of the repository, if the directory is the root of one.
    pub(crate) fn read_repository(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        match rustix::fs::statat(directory, c".git", AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => self.repository(read_exclude(directory)?),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, file: RuleFile, text: Option<Vec<u8>>) {
        if let Some(place) = self.texts.get_mut(file as usize) {
            *place = text;
        }
    }

    pub(crate) fn repository(&mut self, exclude: Option<Vec<u8>>) {
        self.repository = true;
        self.set(RuleFile::Exclude, exclude);
    }

    pub(crate) fn sums(&self) -> RuleHashes {
        let mut sums = RuleHashes { repository: self.repository, ..RuleHashes::default() };
        for (place, text) in sums.sums.iter_mut().zip(&self.texts) {
            *place = text.as_deref().map(ObjectHash::of);
        }
        sums
    }

    fn is_empty(&self) -> bool {
        !self.repository && self.texts.iter().all(Option::is_none)
    }
}

/// The text of a regular file in the directory; `None` if there is no such file.
pub(crate) fn read_rules_text(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
    follow: OFlags,
) -> Result<Option<Vec<u8>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | follow;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(errno) if are_rules_absent(errno) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&file)?;
    if crate::take::stat::stat_kind(&stat) != FileType::RegularFile {
        return Ok(None);
    }
    let size = usize::try_from(stat.st_size).unwrap_or(MAX_TEXT);
    let mut text = vec![0; size.clamp(1, MAX_TEXT)];
    let mut filled = 0;
    while let Some(room) = text.get_mut(filled..).filter(|room| !room.is_empty()) {
        match rustix::io::read(&file, room) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    text.truncate(filled);
    Ok(Some(text))
}

/// Returns true if there is no regular file with this name: nothing, a link that is not followed, a
/// socket, or an invalid name.
fn are_rules_absent(errno: Errno) -> bool {
    let nothing = matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::NAMETOOLONG);
    nothing || matches!(errno, Errno::LOOP | Errno::NXIO)
}

/// Reads `info/exclude` of the repository whose work tree starts in this directory. In a linked
/// work tree or a submodule, `.git` is a file that points to the repository.
pub(crate) fn read_exclude(directory: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Errno> {
    let follow = OFlags::empty();
    let Some(pointer) = read_rules_text(directory, c".git", OFlags::NOFOLLOW)? else {
        return read_rules_text(directory, c".git/info/exclude", follow);
    };
    let Some(place) = pointer.strip_prefix(b"gitdir:") else { return Ok(None) };
    let place = place.trim_ascii();
    let join = |place: &[u8], name: &[u8]| [place, b"/", name].concat();
    let common = match read_rules_text(directory, join(place, b"commondir").as_slice(), follow)? {
        Some(text) if text.starts_with(b"/") => text.trim_ascii().to_vec(),
        Some(text) => join(place, text.trim_ascii()),
        None => place.to_vec(),
    };
    read_rules_text(directory, join(&common, b"info/exclude").as_slice(), follow)
}

/// The rules for the names of one directory, including those from above.
#[derive(Debug)]
pub(crate) struct Rules {
    outer: Option<Arc<Rules>>,
    /// The directory relative to the root.
    place: RulesPlace,
    repository: bool,
    matchers: [Option<Gitignore>; 4],
}

#[derive(Debug)]
enum RulesPlace {
    /// The length of its path relative to the root, with a trailing slash.
    Inside(usize),
    /// The path of the root relative to it.
    Above(Vec<u8>),
}

impl Rules {
    /// Git's global excludes.
    pub(crate) fn global(text: Option<&[u8]>) -> Self {
        let matchers = [text.map(rules_matcher), None, None, None];
        Self { outer: None, place: RulesPlace::Inside(0), repository: true, matchers }
    }

    /// Adds the rules of a directory above the root.
    pub(crate) fn above(self: Arc<Self>, root: Vec<u8>, texts: &RuleTexts) -> Arc<Self> {
        self.with(RulesPlace::Above(root), texts)
    }

    /// Adds the rules of the directory at this path.
    pub(crate) fn inside(self: Arc<Self>, path: &[u8], texts: &RuleTexts) -> Arc<Self> {
        let prefix = if path.is_empty() { 0 } else { path.len() + 1 };
        self.with(RulesPlace::Inside(prefix), texts)
    }

    fn with(self: Arc<Self>, place: RulesPlace, texts: &RuleTexts) -> Arc<Self> {
        if texts.is_empty() {
            return self;
        }
        let mut matchers = [const { None }; 4];
        for (matcher_of, text) in matchers.iter_mut().zip(&texts.texts) {
            *matcher_of = text.as_deref().map(rules_matcher);
        }
        let repository = texts.repository;
        Arc::new(Self { outer: Some(self), place, repository, matchers })
    }

    /// Returns true if the path is ignored. Its parents must not be.
    pub(crate) fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        let strongest = RuleFile::STRONGEST_FIRST.into_iter().find_map(|file| {
            self.levels().find_map(|level| level.verdict(file, path, is_directory))
        });
        strongest
            .or_else(|| {
                let mut inside = true;
                let levels = self.levels().take_while(|level| {
                    let here = inside;
                    inside &= !level.repository;
                    here
                });
                first_matching_rule(levels, RuleFile::Git, path, is_directory)
            })
            .or_else(|| {
                // The nearest repository, then the global excludes.
                let nearest = self.levels().find(|level| level.repository);
                let last = self.levels().last();
                let levels = nearest.into_iter().chain(last);
                first_matching_rule(levels, RuleFile::Exclude, path, is_directory)
            })
            .unwrap_or(false)
    }

    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.outer.as_deref())
    }

    fn verdict(&self, file: RuleFile, path: &[u8], is_directory: bool) -> Option<bool> {
        let matcher = self.matchers.get(file as usize)?.as_ref()?;
        match &self.place {
            RulesPlace::Inside(prefix) => {
                decide_by_rules(matcher, path.get(*prefix..)?, is_directory)
            }
            RulesPlace::Above(root) => {
                let path = [root, &b"/"[..], path].concat();
                decide_by_rules(matcher, &path, is_directory)
            }
        }
    }
}

fn first_matching_rule<'a>(
    mut levels: impl Iterator<Item = &'a Rules>,
    file: RuleFile,
    path: &[u8],
    is_directory: bool,
) -> Option<bool> {
    levels.find_map(|level| level.verdict(file, path, is_directory))
}

/// Whether the matcher ignores or whitelists the path; `None` if no pattern matches.
pub(crate) fn decide_by_rules(
    matcher: &Gitignore,
    path: &[u8],
    is_directory: bool,
) -> Option<bool> {
    match matcher.matched(Path::new(OsStr::from_bytes(path)), is_directory) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

/// The matcher of an ignore file. Invalid patterns are skipped, as in git.
fn rules_matcher(text: &[u8]) -> Gitignore {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new("");
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let _ = builder.add_line(None, &plain_rule_braces(&String::from_utf8_lossy(line)));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Escapes braces: they are literal in git, but alternatives in the matcher.
pub(crate) fn plain_rule_braces(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut characters = line.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                out.push('\\');
                out.extend(characters.next());
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '{' | '}' if !in_class => out.push('\\'),
            _ => {}
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_plain_and_the_nearest_rule_of_the_strongest_kind_decides() {
        assert_eq!(plain_rule_braces(r"a{b,c}\{[{]"), r"a\{b,c\}\{[{]");
        let texts = |file, text: &str| {
            let mut texts = RuleTexts::default();
            texts.set(file, Some(text.into()));
            texts
        };
        let rules = Arc::new(Rules::global(Some(b"g\n")));
        let rules = rules.above(b"part".to_vec(), &texts(RuleFile::Git, "/part/up\n*.o\n"));
        let rules = rules.inside(b"", &texts(RuleFile::Own, "x\n"));
        let rules = rules.inside(b"a/b", &texts(RuleFile::Git, "!*.o\n/only\n!x\n!g\n"));
        let ignored = |path: &str| rules.ignores(path.as_bytes(), false);
        assert!(ignored("up") && ignored("a/b/x") && ignored("a/b/only"));
        assert!(!ignored("a/b/c.o") && !ignored("a/b/c/only") && !ignored("a/b/g"));
        let mut nested = texts(RuleFile::Git, "own\n");
        nested.repository(Some(b"e\n".to_vec()));
        let nested = rules.inside(b"a/b/r", &nested);
        let ignored = |path: &str| nested.ignores(path.as_bytes(), false);
        assert!(ignored("a/b/r/own") && ignored("a/b/r/e") && ignored("a/b/r/g"));
        assert!(ignored("a/b/r/x") && !ignored("a/b/r/only"));
    }

    #[test]
    fn a_chain_tells_every_kind_of_rules_apart() {
        let outer = RulesHash::of([&b"outer"[..]]);
        let sum = ObjectHash::of(b"rules");
        let mut chains = vec![RuleHashes::default().chain(outer)];
        assert_eq!(chains, [outer]);
        for file in [RuleFile::Exclude, RuleFile::Git, RuleFile::Plain, RuleFile::Own] {
            let mut sums = RuleHashes::default();
            sums.set(file, sum);
            chains.push(sums.chain(outer));
        }
        let mut repository = RuleHashes::default();
        repository.repository(None);
        chains.push(repository.chain(outer));
        chains.extend(
            [IgnoreStatus::Ignored, IgnoreStatus::Included].map(|within| outer.below(within)),
        );
        for (at, chain) in chains.iter().enumerate() {
            assert!(!chains[at + 1..].contains(chain), "{at}");
        }
    }
}
