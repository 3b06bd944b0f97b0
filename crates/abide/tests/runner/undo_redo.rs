//! Any acts, messages, edits, undos and redos: the session is that of a model with two stacks.

use std::fs;

use abide::{
    CheckpointRequest, LaneId, Message, NewEvent, NewSession, RewindRequest, Session, Store,
    checkpoint::{ReversibleActKind, RewindWatch},
};
use abide_testkit::FaultRun;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const FILES: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Step {
    Say,
    Edit(usize, u8),
    Checkpoint,
    /// To a checkpoint: both, the files, one of them, the conversation.
    Rewind(usize, Reach),
    Compact,
    Undo,
    Redo,
}

#[derive(Debug, Clone, Copy)]
enum Reach {
    Both,
    Files,
    OneFile(usize),
    Conversation,
    /// Neither: it was there already.
    Nothing,
}

fn step() -> impl Strategy<Value = Step> {
    let reach = prop_oneof![
        Just(Reach::Both),
        Just(Reach::Files),
        (0..FILES.len()).prop_map(Reach::OneFile),
        Just(Reach::Conversation),
    ];
    prop_oneof![
        3 => Just(Step::Say),
        2 => (0..FILES.len(), any::<u8>()).prop_map(|(file, byte)| Step::Edit(file, byte)),
        2 => Just(Step::Checkpoint),
        3 => (0..4_usize, reach).prop_map(|(to, reach)| Step::Rewind(to, reach)),
        2 => Just(Step::Compact),
        4 => Just(Step::Undo),
        3 => Just(Step::Redo),
    ]
}

/// What a session is: what was said, what stands for a part of it, and the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Model {
    messages: Vec<u64>,
    /// The compactions in force, by number.
    compactions: Vec<u64>,
    files: [u8; FILES.len()],
}

/// An act with what it takes to go over it: what was before it, or after it once it is undone.
#[derive(Debug, Clone)]
enum Act {
    Rewind(Reach, Model),
    Compaction(u64),
}

struct World {
    dir: tempfile::TempDir,
    session: Session,
    model: Model,
    checkpoints: Vec<(u64, Model)>,
    done: Vec<Act>,
    undone: Vec<Act>,
    said: u64,
    compacted: u64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let mut new = NewSession::titled("model");
        new.fields.workspace = Some(dir.path().to_string_lossy().into_owned());
        let session = store.create(new).unwrap();
        let mut world = Self {
            dir,
            session,
            model: Model::default(),
            checkpoints: Vec::new(),
            done: Vec::new(),
            undone: Vec::new(),
            said: 0,
            compacted: 0,
        };
        (0..FILES.len()).for_each(|file| world.edit(file, 0));
        world.checkpoint();
        world
    }

    fn do_step(&mut self, step: &Step) {
        match step {
            Step::Say => self.say(),
            Step::Edit(file, byte) => self.edit(*file, *byte),
            Step::Checkpoint => self.checkpoint(),
            Step::Rewind(to, reach) => self.rewind(*to, *reach),
            Step::Compact => self.compact(),
            Step::Undo => self.undo(),
            Step::Redo => self.redo(),
        }
        assert_eq!(self.look(), self.model, "{step:?}");
    }

    fn say(&mut self) {
        self.said += 1;
        self.session.append(Message::user(self.said.to_string())).unwrap().wait().unwrap();
        self.model.messages.push(self.said);
    }

    fn edit(&mut self, file: usize, byte: u8) {
        fs::write(self.dir.path().join(FILES[file]), [byte]).unwrap();
        self.model.files[file] = byte;
    }

    fn checkpoint(&mut self) {
        let made = self.session.checkpoint(&CheckpointRequest::default()).unwrap();
        self.checkpoints.push((made.number, self.model.clone()));
    }

    fn rewind(&mut self, to: usize, reach: Reach) {
        let (number, then) = self.checkpoints[to % self.checkpoints.len()].clone();
        let request = RewindRequest {
            files: !matches!(reach, Reach::Conversation | Reach::Nothing),
            conversation: matches!(reach, Reach::Both | Reach::Conversation),
            paths: match reach {
                Reach::OneFile(file) => vec![FILES[file].to_owned()],
                _ => Vec::new(),
            },
        };
        let watch = RewindWatch::default();
        let at = self.session.view().resolve(&number.to_string()).unwrap();
        let plan = self.session.plan_rewind(&at, &request, &watch).unwrap();
        // Where nothing was recorded since, the conversation is not touched.
        let reach = match reach {
            Reach::Both if plan.left.0 == 0 => Reach::Files,
            Reach::Conversation if plan.left.0 == 0 => Reach::Nothing,
            reach => reach,
        };
        self.session.rewind(plan, &watch).unwrap();
        let before = self.model.clone();
        go_over(&mut self.model, &then, reach);
        self.done.push(Act::Rewind(reach, before));
        self.undone.clear();
    }

    /// The last message gives way to a summary.
    fn compact(&mut self) {
        let context = self.session.context().unwrap();
        let Some(last) = context.context.entries.last().map(|entry| entry.seq()) else { return };
        self.compacted += 1;
        let data = serde_json::json!({
            "first": last, "last": last, "summary": format!("compaction {}", self.compacted),
        });
        let line = serde_json::json!({"kind": "context.compacted", "data": data}).to_string();
        self.session.append(NewEvent::parse(&line).unwrap()).unwrap().wait().unwrap();
        self.model.compactions.push(self.compacted);
        self.done.push(Act::Compaction(self.compacted));
        self.undone.clear();
    }

    fn undo(&mut self) {
        let next = self.session.next_undo(None).unwrap();
        let Some(act) = self.done.pop() else { return assert_eq!(next, None) };
        let next = next.unwrap();
        match act {
            Act::Rewind(reach, before) => {
                assert_eq!(next.kind, ReversibleActKind::Rewind);
                self.undone.push(Act::Rewind(reach, self.model.clone()));
                self.go(next.at);
                go_over(&mut self.model, &before, reach);
            }
            Act::Compaction(number) => {
                assert_eq!(next.kind, ReversibleActKind::Compaction);
                self.session.undo_compaction(None::<&LaneId>).unwrap();
                assert_eq!(self.model.compactions.pop(), Some(number));
                self.undone.push(Act::Compaction(number));
            }
        }
    }

    fn redo(&mut self) {
        let next = self.session.next_redo().unwrap();
        let Some(act) = self.undone.pop() else { return assert_eq!(next, None) };
        let next = next.unwrap();
        match act {
            Act::Rewind(reach, after) => {
                assert_eq!(next.kind, ReversibleActKind::Rewind);
                self.done.push(Act::Rewind(reach, self.model.clone()));
                self.go(next.at);
                go_over(&mut self.model, &after, reach);
            }
            Act::Compaction(number) => {
                assert_eq!(next.kind, ReversibleActKind::Compaction);
                self.session.redo_compaction(next.at).unwrap();
                self.model.compactions.push(number);
                self.done.push(Act::Compaction(number));
            }
        }
    }

    /// Undoes the rewind of an event.
    fn go(&self, at: abide::Seq) {
        let watch = RewindWatch::default();
        let plan = self.session.plan_undo_of(at, &watch).unwrap();
        self.session.rewind(plan, &watch).unwrap();
    }

    /// What the session and the files really are.
    fn look(&self) -> Model {
        let file = |name: &str| fs::read(self.dir.path().join(name)).unwrap()[0];
        let view = self.session.view();
        let lineage = view.state().unwrap().core.lineage;
        let live = view.events(abide::EventRange::ALL).map(Result::unwrap);
        let live: Vec<_> = live.filter(|event| lineage.contains(event.seq)).collect();
        let messages = live.iter().filter(|event| event.kind == abide::Kind::MESSAGE_ADDED);
        let said = |event: &abide::Event| {
            let message: serde_json::Value =
                serde_json::from_str(event.data.as_ref().unwrap().as_str()).unwrap();
            message["content"].as_str().unwrap().parse().unwrap()
        };
        let in_force = view.compactions().unwrap().into_iter().filter(|entry| !entry.undone);
        let number = |summary: &str| summary.rsplit(' ').next().unwrap().parse().unwrap();
        Model {
            messages: messages.map(said).collect(),
            compactions: in_force.map(|entry| number(&entry.compaction.summary)).collect(),
            files: FILES.map(file),
        }
    }
}

/// Goes from one state to another, as far as a rewind reaches.
fn go_over(model: &mut Model, to: &Model, reach: Reach) {
    match reach {
        Reach::Both => *model = to.clone(),
        Reach::Files => model.files = to.files,
        Reach::OneFile(file) => model.files[file] = to.files[file],
        Reach::Conversation => {
            let files = model.files;
            *model = Model { files, ..to.clone() };
        }
        Reach::Nothing => {}
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
    fn undo_and_redo_are_those_of_two_stacks(steps in vec(step(), 1..25)) {
        let mut world = World::new();
        for step in &steps {
            world.do_step(step);
        }
        // All that was done is taken back, and done again.
        while !world.done.is_empty() {
            world.do_step(&Step::Undo);
        }
        while !world.undone.is_empty() {
            world.do_step(&Step::Redo);
        }
        world.do_step(&Step::Redo);
    }
}
