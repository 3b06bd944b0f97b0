//! Any edits, checkpoints, rewinds and undos: the files are those of the model after each step.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use abide::{
    CheckpointRequest, NewSession, RewindRequest, Session, Store, checkpoint::RewindWatch,
};
use abide_testkit::FaultRun;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const PATHS: [&str; 8] = ["a", "b", "d", "d/a", "d/e", "d/e/b", "f/g", "f/h"];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u8, usize),
    Delete(usize),
    Rename(usize, usize),
    Chmod(usize, u32),
    Link(usize, usize),
    Directory(usize),
    Checkpoint,
    Rewind(usize),
    RewindOne(usize, usize),
    Undo,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    prop_oneof![
        6 => (path.clone(), any::<u8>(), prop_oneof![Just(0), 1..40_usize, Just(70_000)])
            .prop_map(|(path, byte, length)| Step::Write(path, byte, length)),
        2 => path.clone().prop_map(Step::Delete),
        2 => (path.clone(), path.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (path.clone(), prop_oneof![Just(0o600), Just(0o755), Just(0o644)])
            .prop_map(|(path, mode)| Step::Chmod(path, mode)),
        1 => (path.clone(), path.clone()).prop_map(|(path, to)| Step::Link(path, to)),
        1 => path.clone().prop_map(Step::Directory),
        3 => Just(Step::Checkpoint),
        2 => (0..8_usize).prop_map(Step::Rewind),
        1 => (0..8_usize, path).prop_map(|(to, path)| Step::RewindOne(to, path)),
        2 => Just(Step::Undo),
    ]
}

/// What a path is: a directory, a file or a link, with its mode and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
}

type Model = BTreeMap<String, Node>;

fn look(root: &Path) -> Model {
    let mut model = Model::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".abide") {
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let seen = fs::symlink_metadata(&path).unwrap();
            let mode = seen.permissions().mode() & 0o7777;
            let node = if seen.is_dir() {
                left.push(path);
                Node::Directory(mode)
            } else if seen.is_symlink() {
                Node::Link(fs::read_link(&path).unwrap())
            } else {
                Node::File(mode, fs::read(&path).unwrap())
            };
            model.insert(name, node);
        }
    }
    model
}

/// What the model is when only this path goes from one to the other.
fn one_path(now: &Model, then: &Model, path: &str) -> Option<Model> {
    let below = |name: &str| name == path || name.starts_with(&format!("{path}/"));
    // Where a parent is otherwise in the two, more than the path itself changes.
    let mut parent = Path::new(path);
    while let Some(up) = parent.parent().filter(|up| !up.as_os_str().is_empty()) {
        let name = up.to_str().unwrap();
        if now.get(name) != then.get(name) {
            return None;
        }
        parent = up;
    }
    let kept = now.iter().filter(|(name, _)| !below(name));
    let back = then.iter().filter(|(name, _)| below(name));
    Some(kept.chain(back).map(|(name, node)| (name.clone(), node.clone())).collect())
}

struct World {
    dir: tempfile::TempDir,
    session: Session,
    checkpoints: Vec<(u64, Model)>,
    /// The files before each rewind that can be undone.
    before: Option<Model>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let mut new = NewSession::titled("model");
        new.fields.workspace = Some(dir.path().to_string_lossy().into_owned());
        let session = store.create(new).unwrap();
        Self { dir, session, checkpoints: Vec::new(), before: None }
    }

    fn path(&self, index: usize) -> PathBuf {
        self.dir.path().join(PATHS[index])
    }

    fn clear(path: &Path) {
        let _ = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
    }

    fn parents(path: &Path) -> bool {
        fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.parent().unwrap().is_symlink()
    }

    fn do_step(&mut self, step: &Step) {
        match step {
            Step::Write(path, byte, length) => {
                let path = self.path(*path);
                if Self::parents(&path) && !path.is_symlink() && !path.is_dir() {
                    fs::write(&path, vec![*byte; *length]).unwrap();
                }
            }
            Step::Delete(path) => Self::clear(&self.path(*path)),
            Step::Rename(from, to) => {
                let (from, to) = (self.path(*from), self.path(*to));
                if Self::parents(&to) {
                    let _ = fs::rename(from, to);
                }
            }
            Step::Chmod(path, mode) => {
                let path = self.path(*path);
                if path.is_file() && !path.is_symlink() {
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                }
            }
            Step::Link(path, to) => {
                let path = self.path(*path);
                if Self::parents(&path) && !path.is_dir() {
                    Self::clear(&path);
                    symlink(PATHS[*to], &path).unwrap();
                }
            }
            Step::Directory(path) => {
                let path = self.path(*path);
                if Self::parents(&path) {
                    let _ = fs::create_dir(&path);
                }
            }
            Step::Checkpoint => self.checkpoint(),
            Step::Rewind(to) => self.rewind(*to, None),
            Step::RewindOne(to, path) => self.rewind(*to, Some(PATHS[*path])),
            Step::Undo => self.undo(),
        }
    }

    fn checkpoint(&mut self) {
        let made = self.session.checkpoint(&CheckpointRequest::default()).unwrap();
        self.checkpoints.push((made.number, look(self.dir.path())));
    }

    fn rewind(&mut self, to: usize, path: Option<&str>) {
        let Some((number, then)) = self.checkpoints.get(to % self.checkpoints.len().max(1)) else {
            return;
        };
        let before = look(self.dir.path());
        let expected = match path {
            None => Some(then.clone()),
            Some(path) => one_path(&before, then, path),
        };
        let request = RewindRequest {
            files: true,
            paths: path.into_iter().map(str::to_owned).collect(),
            conversation: false,
        };
        let watch = RewindWatch::default();
        let at = self.session.view().resolve(&number.to_string()).unwrap();
        let plan = self.session.plan_rewind(&at, &request, &watch).unwrap();
        let done = self.session.rewind(plan, &watch).unwrap();
        assert_eq!(done.files.failed, []);
        if let Some(expected) = expected {
            assert_eq!(look(self.dir.path()), expected);
        }
        self.before = Some(before);
    }

    fn undo(&mut self) {
        let Some(expected) = self.before.take() else { return };
        // Edits since the rewind are undone with it, and are held by the checkpoint that undo makes.
        let present = look(self.dir.path());
        let watch = RewindWatch::default();
        let plan = self.session.plan_undo(&watch).unwrap();
        let whole = plan.rewind.paths.is_empty();
        let done = self.session.rewind(plan, &watch).unwrap();
        assert_eq!(done.files.failed, []);
        if whole {
            assert_eq!(look(self.dir.path()), expected);
        }
        self.before = Some(present);
    }
}

/// `ABIDE_SEED` makes a run that can be done again.
fn seed() -> RngSeed {
    FaultRun::from_env().given_seed().map_or(RngSeed::Random, RngSeed::Fixed)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: FaultRun::from_env().cases(30, 250),
        rng_seed: seed(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn the_files_are_those_of_the_model_after_each_step(steps in vec(step(), 1..30)) {
        let mut world = World::new();
        for step in &steps {
            world.do_step(step);
        }
        // Every checkpoint can be gone back to at the end.
        for to in 0..world.checkpoints.len() {
            world.rewind(to, None);
        }
    }
}
