//! What checkpoints follow: the prompt or the task before them. Derived from the events; never
//! recorded.

use std::collections::BTreeMap;

use abide_model::{Event, EventRange, Kind, ReadDirection, Seq, SessionState, prompt_line};

use crate::checkpoint::CheckpointEntry;
use crate::{Error, SessionView};

/// How many events are read to find them.
const MOST_EVENTS: usize = 100_000;

impl SessionView {
    /// What each checkpoint follows, by its event: the first line of the last prompt of a person
    /// before it, or the title of the task whose turn came last. One that follows neither is left out,
    /// and so is one that follows a prompt further away than a hundred thousand events.
    pub fn checkpoint_subjects(
        &self,
        entries: &[CheckpointEntry],
    ) -> Result<BTreeMap<Seq, String>, Error> {
        let mut subjects = BTreeMap::new();
        let mut left: Vec<&CheckpointEntry> = entries.iter().collect();
        left.sort_unstable_by_key(|entry| entry.seq);
        let Some(newest) = left.last() else { return Ok(subjects) };
        let state = self.state()?;
        let range = EventRange {
            last: newest.seq,
            direction: ReadDirection::Backward,
            limit: 256,
            ..EventRange::ALL
        };
        for event in self.events(range).take(MOST_EVENTS) {
            let event = event?;
            let Some(subject) = checkpoint_subject(&event, &state) else { continue };
            let live = state.core.lineage.contains(event.seq);
            // They are sorted: only the last of them come after this event.
            let first = left.partition_point(|entry| entry.seq <= event.seq);
            let mut later = left.split_off(first);
            later.retain(|entry| {
                // What a rewind took back is followed only by what it took back too.
                let follows = live || !entry.live;
                if follows {
                    subjects.insert(entry.seq, subject.clone());
                }
                !follows
            });
            left.append(&mut later);
            if left.is_empty() {
                break;
            }
        }
        Ok(subjects)
    }
}

/// What a checkpoint after this event is named by, if by this event.
fn checkpoint_subject(event: &Event, state: &SessionState) -> Option<String> {
    let is_turn = [Kind::TURN_STARTED, Kind::TURN_FINISHED].contains(&event.kind);
    let task = event.task.as_ref().filter(|_| is_turn || event.kind == Kind::MESSAGE_ADDED);
    let task = task.and_then(|task| state.tasks.get(task.as_str()));
    match task.map(|task| task.title.trim()).filter(|title| !title.is_empty()) {
        Some(title) => Some(title.to_owned()),
        None => prompt_line(event),
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, NewSession, SessionRef};

    use crate::Store;

    #[test]
    fn a_checkpoint_is_named_by_the_prompt_or_the_task_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let session = store.create(NewSession::titled("a")).unwrap();
        let checkpoint = r#"{"kind":"checkpoint.created","data":{}}"#;
        let say = |role: &str, text: &str| {
            format!(r#"{{"kind":"message.added","data":{{"role":"{role}","content":"{text}"}}}}"#)
        };
        let turn = |kind: &str| format!(r#"{{"kind":"turn.{kind}","task":"T1","data":{{}}}}"#);
        for line in [
            checkpoint,
            &say("user", "<system-reminder>x</system-reminder>Fix it\\nplease"),
            &say("assistant", "Done"),
            checkpoint,
            r#"{"kind":"task.created","data":{"task":"T1","title":"Write the docs"}}"#,
            &turn("started"),
            &turn("finished"),
            checkpoint,
            &say("user", "And the tests"),
            checkpoint,
            r#"{"kind":"session.rewound","data":{"to":10}}"#,
            checkpoint,
        ] {
            session.append(NewEvent::parse(line).unwrap()).unwrap().wait().unwrap();
        }
        let id = session.id();
        session.close().unwrap();
        let view = store.view(&SessionRef::Id(id)).unwrap();
        let all = view.all_checkpoints().unwrap();
        let subjects = view.checkpoint_subjects(&all).unwrap();
        let named: Vec<_> = all.iter().map(|entry| subjects.get(&entry.seq)).collect();
        let named: Vec<_> = named.into_iter().map(|name| name.map(String::as_str)).collect();
        let [none, fix, docs, tests, back] = named.as_slice() else { panic!("{named:?}") };
        assert_eq!((*none, *fix, *docs), (None, Some("Fix it"), Some("Write the docs")));
        assert_eq!((*tests, *back), (Some("And the tests"), Some("Write the docs")));
    }
}
