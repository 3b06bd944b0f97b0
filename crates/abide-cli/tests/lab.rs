//! A project with a session, put back as it was before each fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{ABIDE, Done, StoreLayout, TestEnvironment, files, run};
use crate::fault::{self, Call, Fault};

/// Nothing takes as long as this; what does hangs.
const SECONDS: &str = "120";

/// The files of the project, the store left aside.
fn project_files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = files(dir);
    all.retain(|(path, _)| !path.starts_with(dir.join(".abide")));
    all
}

pub(crate) struct Lab {
    pub(crate) env: TestEnvironment,
    pub(crate) session: String,
}

/// What a command left that a fault came upon.
#[derive(Debug)]
pub(crate) struct Struck {
    pub(crate) done: Done,
    /// Did the fault happen at all?
    pub(crate) struck: bool,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(StoreLayout::Project)
    }

    pub(crate) fn with(layout: StoreLayout) -> Self {
        let env = TestEnvironment::with(layout);
        let session = env.run(&["new", "--title", "kill"]).success().stdout().trim().to_owned();
        Self { env, session }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.env.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `abide` by way of another program, which is given its name and arguments.
    fn by(&self, way: &[String], args: &[&str]) -> Command {
        let mut command = self.env.isolate(Command::new("timeout"));
        command.arg(SECONDS).args(way).arg(ABIDE).args(args).env("ABIDE_SESSION", &self.session);
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.by(&[], args)
    }

    pub(crate) fn must(&self, args: &[&str]) -> String {
        run(self.command(args), b"").success().stdout().to_owned()
    }

    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        project_files(&self.env.project())
    }

    /// The calls by which a command changes something, from a run without a fault.
    pub(crate) fn calls(&self, args: &[&str], input: &[u8]) -> Vec<Call> {
        let log = self.env.path("strace");
        run(self.by(&fault::trace(&log), args), input).success();
        fault::calls(&fs::read_to_string(log).unwrap())
    }

    /// Runs a command with a fault.
    pub(crate) fn strike(&self, args: &[&str], input: &[u8], fault: &Fault) -> Struck {
        let log = self.env.path("strace");
        let _ = fs::remove_file(&log);
        let done = run(self.by(&fault.way(&log), args), input);
        assert_ne!(done.code, 124, "it hangs: {done:?}");
        let log = fs::read_to_string(log).unwrap_or_default();
        Struck { struck: fault.struck(&done, &log), done }
    }

    /// The user's home: what was begun is noted there, and their own store is there.
    fn home(&self) -> PathBuf {
        self.env.path("home")
    }

    /// Puts project, store and notes back as they were.
    pub(crate) fn reset(&self, from: &Path) {
        for (there, kept) in
            [(self.env.project(), from.to_owned()), (self.home(), from.with_extension("home"))]
        {
            fs::remove_dir_all(&there).unwrap();
            copy(&kept, &there);
        }
    }

    pub(crate) fn keep(&self, name: &str) -> PathBuf {
        let to = self.env.path(name);
        copy(&self.env.project(), &to);
        copy(&self.home(), &to.with_extension("home"));
        to
    }
}

/// Copies a directory with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}
