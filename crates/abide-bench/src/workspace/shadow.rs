//! Shadow git: a repository beside the workspace that takes its files, as agents do it today.
//!
//! Nothing of the user's configuration is read, and what git syncs by default is left so.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::bench::bytes_below;

/// A shadow repository of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    dir: PathBuf,
    work: PathBuf,
}

impl Shadow {
    pub(crate) fn init(dir: &Path, work: &Path) -> Outcome<Self> {
        let shadow = Self { dir: dir.to_owned(), work: work.to_owned() };
        run(plain().args(["init", "--quiet", "--bare", "--template=", "-b", "main"]).arg(dir))?;
        run(shadow.git().args(["config", "core.bare", "false"]))?;
        run(shadow.git().args(["config", "gc.auto", "0"]))?;
        Ok(shadow)
    }

    /// A copy, with this tree kept and all of it packed.
    pub(crate) fn packed(&self, dir: &Path, tree: &str) -> Outcome<Self> {
        let status = Command::new("cp").arg("-a").arg(&self.dir).arg(dir).status()?;
        if !status.success() {
            return Err(format!("{} was not copied: {status}", self.dir.display()).into());
        }
        let packed = Self { dir: dir.to_owned(), work: self.work.clone() };
        packed.keep(tree)?;
        run(packed.git().args(["gc", "--quiet", "--prune=now"]))?;
        Ok(packed)
    }

    /// The bytes of the repository, with its index.
    pub(crate) fn bytes(&self) -> Outcome<u64> {
        bytes_below(&self.dir)
    }

    /// The bytes of its objects alone.
    pub(crate) fn object_bytes(&self) -> Outcome<u64> {
        bytes_below(&self.dir.join("objects"))
    }

    /// Takes the files. Gives the tree.
    pub(crate) fn snapshot(&self) -> Outcome<String> {
        run(self.git().args(["-c", "core.untrackedCache=false", "add", "-A"]))?;
        said(self.git().arg("write-tree"))
    }

    /// Makes a tree reachable, on top of what was.
    pub(crate) fn keep(&self, tree: &str) -> Outcome {
        let mut commit = self.git();
        commit.args(["commit-tree", "-m", "a turn"]);
        if let Ok(parent) = said(self.git().args(["rev-parse", "--quiet", "--verify", "HEAD"])) {
            commit.args(["-p", &parent]);
        }
        let commit = said(commit.arg(tree))?;
        run(self.git().args(["update-ref", "refs/heads/main", &commit]))
    }

    /// Puts the files back as they were kept last.
    pub(crate) fn reset(&self) -> Outcome {
        run(self.git().args(["reset", "--quiet", "--hard"]))
    }

    /// Writes what was kept last into an empty directory, with two workers.
    pub(crate) fn checkout(&self, into: &Path, index: &Path) -> Outcome {
        let mut git = self.git();
        git.current_dir(into).env("GIT_WORK_TREE", into).env("GIT_INDEX_FILE", index);
        run(git.args(["-c", "checkout.workers=2", "checkout", "--quiet", "--force", "main"]))
    }

    /// The files that it takes, without symbolic links.
    pub(crate) fn files(&self) -> Outcome<Vec<PathBuf>> {
        let mut git = self.git();
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = output(&mut git)?;
        let paths = listed.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        let paths = paths.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        Ok(paths
            .filter(|path| self.work.join(path).symlink_metadata().is_ok_and(|it| it.is_file()))
            .collect())
    }

    fn git(&self) -> Command {
        let mut git = plain();
        git.current_dir(&self.work).env("GIT_DIR", &self.dir).env("GIT_WORK_TREE", &self.work);
        git
    }
}

/// The first parents of a repository's newest commit, from old to new, so many at most and one.
pub(crate) fn commits(repository: &Path, most: usize) -> Outcome<Vec<String>> {
    let mut git = plain();
    git.arg("-C").arg(repository).args(["rev-list", "--first-parent", "--reverse"]);
    let listed = said(git.arg(format!("--max-count={}", most + 1)).arg("HEAD"))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Makes a directory hold the files of a commit: only what differs from the last is written. The
/// repository is only read; `index` remembers what was written.
pub(crate) fn export(repository: &Path, commit: &str, work: &Path, index: &Path) -> Outcome {
    let mut git = plain();
    git.arg("-C").arg(repository).arg("--work-tree").arg(work).env("GIT_INDEX_FILE", index);
    run(git.args(["read-tree", "--reset", "-u", commit]))
}

/// git, as nobody has configured it.
fn plain() -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            git.env_remove(name);
        }
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
    git.env("GIT_CONFIG_VALUE_0", "*").env_remove("XDG_CONFIG_HOME").env("HOME", "/nonexistent");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "bench").env(format!("GIT_{who}_EMAIL"), "bench@local");
    }
    git
}

fn run(git: &mut Command) -> Outcome {
    output(git).map(drop)
}

fn said(git: &mut Command) -> Outcome<String> {
    Ok(String::from_utf8(output(git)?)?.trim_end().to_owned())
}

fn output(git: &mut Command) -> Outcome<Vec<u8>> {
    let output = git.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let arguments: Vec<_> = git.get_args().map(|it| it.to_string_lossy()).collect();
        return Err(format!("git {}: {}", arguments.join(" "), errors.trim_end()).into());
    }
    Ok(output.stdout)
}
