//! The files as they were before and after each turn.

use std::fs;

use abide::CheckpointRequest;
use abide::checkpoint::Trigger;
use abide_hooks::OwnReport;
use abide_model::Kind;

use crate::hooked_agent::{HookedAgent, ID, data_of};

impl HookedAgent {
    /// A hook that captures the files before it records.
    fn tells_with_files(&self, payload: &str, trigger: Trigger) {
        let landed = self.inbox().land(ID, payload).unwrap();
        let request = CheckpointRequest { trigger, ..CheckpointRequest::default() };
        let captured = self.store.capture(&self.work(), &request).unwrap();
        let (name, file) = (landed.name, landed.file);
        let captured = Some(captured);
        self.drains_once(Some(OwnReport { name, captured, without_files: None, file }));
        assert!(self.waiting().is_empty());
    }

    fn file_triggers(&self) -> Vec<String> {
        let made = self.view().checkpoints().unwrap();
        made.into_iter().map(|made| made.checkpoint.trigger).collect()
    }
}

#[test]
fn checkpoints_are_made_of_what_changed_in_the_turn_of_the_change() {
    let agent = HookedAgent::new();
    let a = agent.work().join("a.txt");
    fs::write(&a, "the person's").unwrap();
    agent.tells_with_files(&agent.prompted("t1", "one"), Trigger::Prompt);
    fs::write(&a, "the agent's").unwrap();
    agent.tells_with_files(&agent.stopped("t1", "Done."), Trigger::Turn);
    assert_eq!(agent.file_triggers(), ["prompt", "turn"]);
    // Nothing changed before this prompt nor in its turn.
    agent.tells_with_files(&agent.prompted("t2", "two"), Trigger::Prompt);
    agent.tells_with_files(&agent.stopped("t2", "Nothing."), Trigger::Turn);
    assert_eq!(agent.file_triggers(), ["prompt", "turn"]);
    fs::write(&a, "the person's again").unwrap();
    agent.tells_with_files(&agent.prompted("t3", "three"), Trigger::Prompt);
    assert_eq!(agent.file_triggers(), ["prompt", "turn", "prompt"]);
    // The first is after the beginning of the turn; the second after its end.
    let kinds: Vec<String> = agent.events().iter().map(|event| event.kind.to_string()).collect();
    let of = |kind: &Kind| kinds.iter().position(|one| *one == kind.to_string()).unwrap();
    assert!(of(&Kind::TURN_STARTED) < of(&Kind::CHECKPOINT_CREATED), "{kinds:?}");
}

#[test]
fn why_there_are_no_files_is_said_once() {
    let agent = HookedAgent::new();
    for turn in ["t1", "t2", "t3"] {
        for payload in [agent.prompted(turn, "go"), agent.stopped(turn, "Done.")] {
            let landed = agent.inbox().land(ID, &payload).unwrap();
            let without_files = Some("it is the home directory".to_owned());
            let (name, file) = (landed.name, landed.file);
            agent.drains_once(Some(OwnReport { name, captured: None, without_files, file }));
        }
    }
    let logs: Vec<_> =
        agent.events().into_iter().filter(|event| event.kind == Kind::LOG_RECORDED).collect();
    assert_eq!(logs.len(), 1);
    assert!(data_of(&logs[0])["text"].as_str().unwrap().contains("home directory"));
    assert_eq!(agent.turns().len(), 6);
}
