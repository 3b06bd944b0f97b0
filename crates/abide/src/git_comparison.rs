//! The state of git at a checkpoint and now. Only compares: HEAD and the index are never changed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use abide_model::GitState;

/// The state of git at a checkpoint, and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitComparison {
    /// At the checkpoint.
    pub then: GitState,
    /// Now.
    pub now: GitState,
    /// The root of the repository.
    pub repository: PathBuf,
    /// The path of the workspace within the repository.
    within: PathBuf,
}

impl GitComparison {
    /// `None` unless both states are known.
    pub(crate) fn of(then: Option<GitState>, now: Option<GitState>, root: &Path) -> Option<Self> {
        let known = |state: &GitState| state.error.is_none();
        let (then, now) = (then.filter(known)?, now.filter(known)?);
        let repository = root.ancestors().find(|dir| dir.join(".git").exists())?.to_owned();
        let within = root.strip_prefix(&repository).ok()?.to_owned();
        Some(Self { then, now, repository, within })
    }

    /// Is HEAD on another branch or at another commit?
    #[must_use]
    pub fn has_moved(&self) -> bool {
        (&self.then.head, &self.then.branch) != (&self.now.head, &self.now.branch)
    }

    /// The paths that were staged and are not, or whose staged content is another one once the file
    /// is restored. Both predicates are given paths within the workspace.
    pub(crate) fn unstaged(
        &self,
        is_meant: impl Fn(&str) -> bool,
        changes: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let staged: HashSet<&String> = self.now.staged.iter().collect();
        let lost = |path: &&String| {
            let inside = Path::new(path.as_str()).strip_prefix(&self.within).ok();
            let inside = inside.and_then(Path::to_str);
            let is_staged = staged.contains(path);
            inside.is_some_and(|inside| is_meant(inside) && (!is_staged || changes(inside)))
        };
        self.then.staged.iter().filter(lost).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(branch: &str, staged: &[&str]) -> Option<GitState> {
        let staged = staged.iter().map(|path| (*path).to_owned()).collect();
        Some(GitState { branch: Some(branch.to_owned()), staged, ..GitState::default() })
    }

    #[test]
    fn what_was_staged_and_will_not_be_is_told_by_its_path_in_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("sub");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let then = state("main", &["sub/gone", "sub/kept", "sub/edited", "beside"]);
        let now = state("main", &["sub/kept", "sub/edited"]);
        let git = GitComparison::of(then, now, &root).unwrap();
        assert_eq!(git.repository, dir.path());
        assert!(!git.has_moved());
        let unstaged = git.unstaged(|_| true, |path| path == "edited");
        assert_eq!(unstaged, ["sub/gone", "sub/edited"]);
        assert_eq!(git.unstaged(|path| path == "gone", |_| false), ["sub/gone"]);
        let moved = GitComparison::of(state("main", &[]), state("other", &[]), &root);
        assert!(moved.unwrap().has_moved());
        let broken = Some(GitState { error: Some("x".to_owned()), ..GitState::default() });
        assert_eq!(GitComparison::of(state("main", &[]), broken, &root), None);
    }
}
