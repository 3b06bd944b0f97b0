//! The rules that apply to a whole workspace: the policy, git's global excludes, and the ignore
//! files between the root of the repository and a workspace inside it.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::{fs, io};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Mode;

use crate::error::WorkspaceError;
use crate::policy::Policy;
use crate::restore::workspace_root::DIRECTORY;
use crate::take::rules::{
    IgnoreStatus, RuleTexts, Rules, RulesHash, decide_by_rules, plain_rule_braces,
};

/// The compiled patterns of a policy.
#[derive(Debug)]
pub(crate) struct PolicyPatterns {
    include: Gitignore,
    exclude: Gitignore,
    /// The components of each `include` pattern, except those that can match at any depth.
    reach: Vec<Vec<String>>,
    /// True if an `include` pattern can match at any depth.
    anywhere: bool,
}

impl PolicyPatterns {
    pub(crate) fn new(policy: &Policy) -> Result<Self, WorkspaceError> {
        let mut reach = Vec::new();
        let mut anywhere = false;
        for pattern in &policy.include {
            let inner = pattern.trim_end_matches('/');
            if pattern.starts_with(['!', '#']) {
                continue;
            }
            if inner.contains('/') {
                let inner = inner.trim_start_matches('/');
                reach.push(inner.split('/').map(str::to_owned).collect());
            } else {
                anywhere = true;
            }
        }
        let include = base_rule_list("include", policy.include.iter().map(String::as_str))?;
        let exclude = base_rule_list("exclude", policy.excluded())?;
        Ok(Self { include, exclude, reach, anywhere })
    }

    /// Returns true if something below this directory could be included.
    fn reaches(&self, directory: &[u8]) -> bool {
        self.anywhere || self.reach.iter().any(|pattern| rule_reaches_base(pattern, directory))
    }
}

fn rule_reaches_base(pattern: &[String], directory: &[u8]) -> bool {
    let mut pattern = pattern.iter();
    for name in directory.split(|byte| *byte == b'/') {
        match pattern.next().map(String::as_str) {
            None => return false,
            Some("**") => return true,
            Some(part) if part.contains(['*', '?', '[', '\\']) => {}
            Some(part) if part.as_bytes() == name => {}
            Some(_) => return false,
        }
    }
    pattern.next().is_some()
}

fn base_rule_list<'p>(
    list: &'static str,
    patterns: impl Iterator<Item = &'p str>,
) -> Result<Gitignore, WorkspaceError> {
    let mut builder = GitignoreBuilder::new("");
    let refused = |pattern: &str, error: ignore::Error| WorkspaceError::Pattern {
        list,
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    };
    for pattern in patterns {
        let added = builder.add_line(None, &plain_rule_braces(pattern));
        added.map_err(|error| refused(pattern, error))?;
    }
    builder.build().map_err(|error| refused("", error))
}

/// The decision about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameVerdict {
    /// Capture it. Its contents are judged under this status.
    Taken(IgnoreStatus),
    Ignored,
}

/// The rules for the whole workspace.
#[derive(Debug)]
pub(crate) struct BaseRules<'a> {
    patterns: &'a PolicyPatterns,
    global: Option<Vec<u8>>,
    /// For each directory above, starting at the root of the repository: the workspace's path
    /// relative to it, and its rules.
    above: Vec<(Vec<u8>, RuleTexts)>,
    pub(crate) chain: RulesHash,
    rules: OnceLock<Arc<Rules>>,
}

impl<'a> BaseRules<'a> {
    pub(crate) fn read(
        root: &Path,
        policy: &Policy,
        patterns: &'a PolicyPatterns,
        global: Option<&Path>,
    ) -> Result<Self, WorkspaceError> {
        let global = global.map_or(Ok(None), read_global_base)?;
        let above = rules_above_base(root)?;
        let limits = [policy.max_file_bytes, policy.max_files, policy.max_bytes];
        let limits: Vec<[u8; 8]> = limits.into_iter().map(u64::to_le_bytes).collect();
        let marks = |list: &'static [u8]| std::iter::once(list);
        let mut chain = RulesHash::of(
            limits
                .iter()
                .map(|limit| &limit[..])
                .chain(marks(b"include"))
                .chain(policy.include.iter().map(String::as_bytes))
                .chain(marks(b"exclude"))
                .chain(policy.excluded().map(str::as_bytes))
                .chain(marks(b"global"))
                .chain(global.as_deref()),
        );
        for (path, texts) in &above {
            chain = texts.sums().chain(RulesHash::of([&chain.0[..], path]));
        }
        Ok(Self { patterns, global, above, chain, rules: OnceLock::new() })
    }

    /// The rules from outside the workspace.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        let rules = self.rules.get_or_init(|| {
            let global = Arc::new(Rules::global(self.global.as_deref()));
            self.above.iter().fold(global, |rules, (path, texts)| rules.above(path.clone(), texts))
        });
        Arc::clone(rules)
    }

    /// Decides about a path whose directory was judged as `within`.
    pub(crate) fn verdict(
        &self,
        within: IgnoreStatus,
        path: &[u8],
        is_directory: bool,
        rules: &Rules,
    ) -> NameVerdict {
        if decide_by_rules(&self.patterns.exclude, path, is_directory) == Some(true) {
            return NameVerdict::Ignored;
        }
        if within == IgnoreStatus::Included {
            return NameVerdict::Taken(IgnoreStatus::Included);
        }
        if decide_by_rules(&self.patterns.include, path, is_directory) == Some(true) {
            return NameVerdict::Taken(IgnoreStatus::Included);
        }
        if within == IgnoreStatus::Plain && !rules.ignores(path, is_directory) {
            return NameVerdict::Taken(IgnoreStatus::Plain);
        }
        if is_directory && self.patterns.reaches(path) {
            return NameVerdict::Taken(IgnoreStatus::Ignored);
        }
        NameVerdict::Ignored
    }
}

fn read_global_base(path: &Path) -> Result<Option<Vec<u8>>, WorkspaceError> {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => Ok(None),
        Err(error) => Err(WorkspaceError::io("read git's excludes in", path, error)),
    }
}

/// The rules of the directories above the root that belong to the same repository. Empty if the
/// root is itself the root of a repository, or in none.
fn rules_above_base(root: &Path) -> Result<Vec<(Vec<u8>, RuleTexts)>, WorkspaceError> {
    let has_git = |directory: &Path| directory.join(".git").symlink_metadata().is_ok();
    if has_git(root) {
        return Ok(Vec::new());
    }
    let Some(top) = root.ancestors().find(|directory| has_git(directory)) else {
        return Ok(Vec::new());
    };
    let between = root.ancestors().skip(1).take_while(|directory| directory.starts_with(top));
    let mut found = Vec::new();
    for directory in between {
        let texts = rustix::fs::open(directory, DIRECTORY, Mode::empty())
            .and_then(|opened| RuleTexts::read(opened.as_fd()))
            .map_err(|errno| WorkspaceError::io("read the ignore files of", directory, errno))?;
        let path = root.strip_prefix(directory).unwrap_or(root);
        found.push((path.as_os_str().as_bytes().to_vec(), texts));
    }
    found.reverse();
    Ok(found)
}
