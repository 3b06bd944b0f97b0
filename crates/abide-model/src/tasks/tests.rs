//! The tree against hand-made plans, and against a model that looks at everything each time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    DependencyType, DependencyTypes, Event, NewEvent, Seq, SessionState, TaskChange, TaskCreated,
    TaskId, TaskStatus, TaskStatusChange, Timestamp,
};

use TaskStatus::{Blocked, Complete, Failed, Implementing, Obsolete, Planned, Retrying};

fn created(id: &str, parent: &str, depends: &[&str], priority: i64) -> TaskCreated {
    TaskCreated {
        task: id.into(),
        title: format!("title of {id}"),
        parent: (!parent.is_empty()).then(|| parent.into()),
        depends: depends.iter().map(|id| TaskId::from(*id)).collect(),
        priority,
        ..TaskCreated::default()
    }
}

fn plan(tasks: &[(&str, &str, &[&str])]) -> TaskTree {
    let mut tree = TaskTree::default();
    for (id, parent, depends) in tasks {
        assert_eq!(tree.insert(&created(id, parent, depends, 0)), Ok(Vec::new()));
    }
    tree
}

fn ids<'a>(nodes: impl Iterator<Item = &'a TaskNode>) -> Vec<&'a str> {
    nodes.map(|node| node.id.as_str()).collect()
}

fn ready(tree: &TaskTree) -> Vec<&str> {
    ids(tree.ready(None))
}

const PHASES: &[(&str, &str, &[&str])] = &[
    ("P1", "", &[]),
    ("P1.T1", "P1", &[]),
    ("P1.T2", "P1", &["P1.T1"]),
    ("P2", "", &["P1"]),
    ("P2.T1", "P2", &[]),
    ("P2.T2", "P2", &[]),
];

#[test]
fn a_part_waits_for_what_its_parent_waits_for_and_a_parent_is_done_with_its_parts() {
    let mut tree = plan(PHASES);
    assert_eq!(ready(&tree), ["P1.T1"]);
    assert_eq!(ids(tree.waits_for("P2.T1").into_iter()), ["P1"]);
    assert_eq!(ids(tree.own_waits_for("P2.T1").into_iter()), Vec::<&str>::new());
    assert_eq!(ids(tree.own_waits_for("P2").into_iter()), ["P1"]);
    assert!(tree.is_waiting("P2.T1") && !tree.is_waiting("P1.T1") && !tree.is_waiting("none"));
    assert_eq!(tree.set_status("P1.T1", Complete), []);
    assert_eq!(ready(&tree), ["P1.T2"]);
    assert_eq!(tree.set_status("P1.T2", Complete), [("P1".into(), Complete)]);
    assert_eq!(ready(&tree), ["P2.T1", "P2.T2"]);
    assert!(tree.waits_for("P2.T1").is_empty());
    tree.set_priority("P2.T2", 5).unwrap();
    assert_eq!(ready(&tree), ["P2.T2", "P2.T1"]);
    assert_eq!(ids(tree.children("P2")), ["P2.T2", "P2.T1"]);
    for status in [Failed, Blocked, Obsolete] {
        tree.set_status("P2", status);
        assert_eq!(ready(&tree), [""; 0], "{status:?}");
        assert_eq!(tree.progress(None).ready, 0);
        assert_eq!(ids(tree.ready(Some(&"P2.T1".into()))), [""; 0]);
        tree.set_status("P2", Planned);
    }
    assert_eq!(ids(tree.ready(Some(&"P2.T1".into()))), ["P2.T1"]);
    assert_eq!(ids(tree.ready(Some(&"P1".into()))), [""; 0]);
    assert_eq!(tree.title_path("P2.T1"), ["title of P2", "title of P2.T1"]);
    assert!(tree.contains(&"P2".into(), "P2.T1") && tree.contains(&"P2".into(), "P2"));
    assert!(!tree.contains(&"P1".into(), "P2.T1") && !tree.contains(&"no".into(), "no"));
    assert!(tree.is_leaf("P2.T1") && !tree.is_leaf("P2") && !tree.is_leaf("no"));
    let walked: Vec<_> = tree.walk(Some(&"P2".into())).map(|(t, d)| (t.id.as_str(), d)).collect();
    assert_eq!(walked, [("P2", 0), ("P2.T2", 1), ("P2.T1", 1)]);
    assert_eq!(tree.walk(Some(&"no".into())).count(), 0);
}

#[test]
fn what_follows_goes_up_as_far_as_it_leads() {
    let mut tree = plan(&[("a", "", &[]), ("b", "a", &[]), ("c", "b", &[]), ("d", "b", &[])]);
    assert_eq!(tree.set_status("c", Obsolete), []);
    let both = [("b".into(), Obsolete), ("a".into(), Obsolete)];
    assert_eq!(tree.clone().set_status("d", Obsolete), both);
    let both = [("b".into(), Complete), ("a".into(), Complete)];
    assert_eq!(tree.set_status("d", Complete), both);
    let again = [("b".into(), Planned), ("a".into(), Planned)];
    assert_eq!(tree.clone().set_status("c", Planned), again);
    assert_eq!(tree.insert(&created("e", "b", &[], 0)), Ok(again.to_vec()));
    assert_eq!(ready(&tree), ["e"]);
    // A scope that is no longer wanted stays so while its parts change among themselves.
    tree.set_status("b", Obsolete);
    assert_eq!(tree.set_status("e", Implementing), []);
    assert_eq!(tree.get("b").unwrap().status, Obsolete);
}

#[test]
fn what_was_cut_off_is_settled() {
    let mut tree = plan(&[("a", "", &[]), ("b", "a", &[]), ("c", "", &[]), ("d", "c", &[])]);
    tree.set_status("b", Complete);
    tree.set_status("a", Planned);
    tree.set_status("c", Complete);
    assert_eq!(tree.settle(), [("a".into(), Complete), ("c".into(), Planned)]);
    assert_eq!(tree.settle(), []);
}

#[test]
fn what_is_illegal_is_refused_with_its_reason() {
    let mut tree = plan(PHASES);
    let before = tree.clone();
    let unknown = |task: &str| TaskError::Unknown { task: task.into() };
    assert_eq!(tree.check_status("x", Complete), Err(unknown("x")));
    assert_eq!(tree.set_title("x", "y"), Err(unknown("x")));
    let open = TaskError::OpenParts { task: "P1".into(), open: 2, first: "P1.T1".into() };
    assert_eq!(tree.check_status("P1", Complete), Err(open));
    assert_eq!(tree.check_status("P1", Obsolete), Ok(()));
    let exists = TaskError::Exists { task: "P1".into() };
    assert_eq!(tree.insert(&created("P1", "", &[], 0)), Err(exists));
    assert!(matches!(
        tree.insert(&created("", "", &[], 0)),
        Err(TaskError::BadId { bytes: 0, .. })
    ));
    let parent = TaskError::UnknownParent { task: "n".into(), parent: "gone".into() };
    assert_eq!(tree.insert(&created("n", "gone", &[], 0)), Err(parent));
    let dependency = TaskError::UnknownDependency { task: "n".into(), dependency: "gone".into() };
    assert_eq!(tree.insert(&created("n", "", &["gone"], 0)), Err(dependency));
    same(&tree, &before);

    tree.set_status("P1.T1", Complete);
    let illegal =
        TaskError::IllegalTransition { task: "P1.T1".into(), from: Complete, to: Planned };
    assert_eq!(tree.check_status("P1.T1", Planned), Err(illegal));
    tree.set_status("P1.T2", Failed);
    assert!(tree.check_status("P1.T2", Complete).is_err());
    assert!(tree.check_status("P1.T2", Retrying).is_ok());
}

#[test]
fn tasks_that_would_wait_for_each_other_are_refused() {
    let path = |result: Result<(), TaskError>| match result {
        Err(TaskError::Cycle { path }) => {
            path.iter().map(TaskId::as_str).collect::<Vec<_>>().join(">")
        }
        other => panic!("{other:?}"),
    };
    let none = DependencyTypes::default();
    let on = |ids: &[&str]| ids.iter().map(|id| TaskId::from(*id)).collect::<Vec<_>>();
    let mut tree = plan(PHASES);
    let before = tree.clone();
    assert_eq!(path(tree.set_depends("P1", &on(&["P1"]), &none)), "P1>P1");
    assert_eq!(path(tree.set_depends("P1.T1", &on(&["P1.T2"]), &none)), "P1.T1>P1.T2>P1.T1");
    assert_eq!(path(tree.set_depends("P1.T1", &on(&["P1"]), &none)), "P1.T1>P1>P1.T1");
    assert_eq!(path(tree.set_depends("P1", &on(&["P1.T1"]), &none)), "P1>P1.T1>P1");
    // A part of P2 waits for P1 because P2 does.
    assert_eq!(path(tree.set_depends("P1.T1", &on(&["P2.T1"]), &none)), "P1.T1>P2.T1>P2>P1>P1.T1");
    let new = tree.insert(&created("P1.T3", "P1", &["P2"], 0)).map(|_| ());
    assert!(path(new).starts_with("P1.T3>P2"));
    let own = tree.insert(&created("x", "x", &[], 0)).map(|_| ());
    assert_eq!(path(own), "x>x");
    same(&tree, &before);
    let sizes = |tree: &TaskTree| (tree.slots.len(), tree.places.len());
    assert_eq!(sizes(&tree), sizes(&before), "nothing is left of it");
    tree.set_depends("P2.T2", &on(&["P2.T1", "P1.T1", "P2.T1"]), &none).unwrap();
    assert_eq!(tree.get("P2.T2").unwrap().depends, on(&["P1.T1", "P2.T1"]));
    assert_eq!(ids(tree.dependents("P1.T1")), ["P1.T2", "P2.T2"]);
}

#[test]
fn a_dependency_holds_a_task_back_as_its_type_says() {
    let types = |kind| {
        let mut types = DependencyTypes::default();
        types.set("a".into(), kind);
        types
    };
    for (kind, lets_start) in [
        (DependencyType::Blocks, [Complete, Obsolete].as_slice()),
        (DependencyType::NeedsResult, &[Complete]),
        (DependencyType::Soft, &TaskStatus::ALL),
    ] {
        let mut journal = Journal::default();
        let made = |id: &str, depends: &[&str], types| TaskCreated {
            dependency_types: types,
            ..created(id, "", depends, 0)
        };
        let mut tree = TaskTree::default();
        for task in [made("a", &[], DependencyTypes::default()), made("b", &["a"], types(kind))] {
            tree.insert(&task).unwrap();
            journal.fact(task);
        }
        // Each status after each other: what was counted up is counted down. One that cannot follow
        // is not applied.
        for (was, now) in
            TaskStatus::ALL.into_iter().flat_map(|was| TaskStatus::ALL.map(|now| (was, now)))
        {
            for status in [Obsolete, Planned, was, now] {
                let is_legal = tree.check_status("a", status).is_ok();
                assert_eq!(journal.status(&"a".into(), status).is_none(), is_legal);
                if is_legal {
                    tree.set_status("a", status);
                }
            }
            let may = lets_start.contains(&tree.get("a").unwrap().status);
            let context = format!("{kind}: {was:?}, then {now:?}");
            assert_eq!(ready(&tree).contains(&"b"), may, "{context}");
            assert_eq!(tree.own_waits_for("b").is_empty(), may, "{context}");
            assert_eq!(journal.state.tasks.get("b").unwrap().is_ready(), may, "{context}");
            same(&tree, &TaskTree::of(&journal.state.tasks));
        }
    }
}

#[test]
fn soft_dependencies_may_go_round() {
    let mut tree = plan(&[("a", "", &[]), ("b", "", &["a"])]);
    let mut soft = DependencyTypes::default();
    soft.set("b".into(), DependencyType::Soft);
    tree.set_depends("a", &["b".into()], &soft).unwrap();
    assert_eq!(ready(&tree), ["a"]);
    let hard = tree.set_depends("a", &["b".into()], &DependencyTypes::default());
    assert!(matches!(hard, Err(TaskError::Cycle { .. })));
    assert_eq!(ready(&tree), ["a"], "nothing was changed");
}

/// Facts recorded as they come, legal or not.
#[derive(Default)]
struct Journal {
    state: SessionState,
    seq: u64,
}

impl Journal {
    fn record(&mut self, event: NewEvent) -> Option<crate::Anomaly> {
        self.seq += 1;
        let event: Event = event.into_event(Seq(self.seq), Timestamp::from_millis(0));
        self.state.apply(&event)
    }

    fn fact<F>(&mut self, fact: F) -> Option<crate::Anomaly>
    where
        F: TryInto<NewEvent>,
        F::Error: std::fmt::Debug,
    {
        self.record(fact.try_into().unwrap())
    }

    fn status(&mut self, task: &TaskId, status: TaskStatus) -> Option<crate::Anomaly> {
        self.fact(TaskStatusChange { task: task.clone(), status, ..TaskStatusChange::default() })
    }
}

#[test]
fn what_the_fold_tolerated_does_no_harm() {
    let mut journal = Journal::default();
    let tasks = [
        created("orphan", "gone", &["never"], 0),
        created("a", "c", &["b"], 0),
        created("b", "a", &["c"], 0),
        created("c", "b", &["a", "later"], 0),
        created("leaf", "c", &[], 0),
        created("self", "self", &["self"], 0),
        created("waits", "", &["later"], 0),
    ];
    for task in tasks {
        journal.fact(task);
    }
    let mut tree = TaskTree::of(&journal.state.tasks);
    check(&tree, &journal.state);
    assert_eq!(ids(tree.roots()), ["orphan", "a", "self", "waits"]);
    assert_eq!(ids(tree.waits_for("orphan").into_iter()), ["never"]);
    assert_eq!(ready(&tree), ["self"]);
    assert_eq!(tree.get("gone"), None);
    for id in ["a", "b", "c", "leaf", "orphan", "never"] {
        tree.set_status(id, Complete);
        tree.set_status(id, Obsolete);
        let _ = tree.set_depends(id, &["leaf".into(), "b".into()], &DependencyTypes::default());
    }

    // Named before it exists: it takes up its parts and what waits for it.
    let mut tree = TaskTree::of(&journal.state.tasks);
    for (task, refused) in [
        (created("gone", "orphan", &[], 0), true),
        (created("gone", "leaf", &["orphan"], 0), true),
        (created("gone", "self", &[], 3), false),
        (created("later", "leaf", &[], 0), true),
        (created("later", "gone", &[], 0), false),
    ] {
        let inserted = tree.insert(&task);
        assert_eq!(inserted.is_err(), refused, "{task:?}: {inserted:?}");
        if inserted.is_ok() {
            journal.fact(task);
        }
        check(&tree, &journal.state);
    }
    assert_eq!(tree.title_path("orphan").len(), 3);
    assert_eq!(ready(&tree), ["later"]);
}

#[test]
fn a_chain_of_100_000_parents_is_no_trouble() {
    let mut journal = Journal::default();
    journal.fact(created("0", "", &[], 0));
    for n in 1..100_000_u32 {
        journal.fact(created(&n.to_string(), &(n - 1).to_string(), &[], 0));
    }
    let tree = TaskTree::of(&journal.state.tasks);
    assert_eq!(ready(&tree), ["99999"]);
    assert_eq!(tree.walk(None).last().unwrap().1, 99_999);
}

/// 100 phases of 1,000 tasks, each task after the one before it, each phase after the one before.
fn large() -> TaskTree {
    let mut tree = TaskTree::default();
    for phase in 0..100 {
        let name = format!("P{phase}");
        let before = format!("P{}", phase - 1);
        let depends: &[&str] = if phase == 0 { &[] } else { &[&before] };
        tree.insert(&created(&name, "", depends, 0)).unwrap();
        for task in 0..1000 {
            let before = format!("{name}.{}", task - 1);
            let depends: &[&str] = if task == 0 { &[] } else { &[&before] };
            tree.insert(&created(&format!("{name}.{task}"), &name, depends, 0)).unwrap();
        }
    }
    tree
}

#[test]
fn one_change_among_100_000_tasks_touches_its_neighbours() {
    let mut tree = large();
    assert_eq!(tree.len(), 100_100);
    // Building it touched few for each task, too: nothing grows with what is there.
    assert!(tree.touched < 100_100 * 30, "{}", tree.touched);
    let mut touched = |change: &mut dyn FnMut(&mut TaskTree)| {
        tree.touched = 0;
        change(&mut tree);
        tree.touched
    };
    let begin = touched(&mut |tree| drop(tree.set_status("P0.0", Implementing)));
    let done = touched(&mut |tree| drop(tree.set_status("P0.0", Complete)));
    let priority = touched(&mut |tree| tree.set_priority("P50.500", 1).unwrap());
    let depend = touched(&mut |tree| {
        tree.set_depends(
            "P50.500",
            &["P50.499".into(), "P49.3".into()],
            &DependencyTypes::default(),
        )
        .unwrap();
    });
    assert!(begin > 0 && done > 0 && priority > 0 && depend > 0);
    for count in [begin, done, priority, depend] {
        assert!(count <= 20, "{:?}", [begin, done, priority, depend]);
    }
    assert_eq!(ready(&tree), ["P0.1"]);
    // A task with many dependents costs those, and no more.
    let phase = (1..1000).map(|task| format!("P0.{task}")).collect::<Vec<_>>();
    for id in &phase {
        tree.set_status(id, Complete);
    }
    assert_eq!(tree.get("P0").unwrap().status, Complete);
    assert_eq!(ready(&tree), ["P1.0"]);
    assert_eq!(tree.progress(None).complete, 1000);
}

/// Everything by looking at everything.
struct Naive<'a> {
    tasks: BTreeMap<&'a str, &'a crate::TaskState>,
}

impl<'a> Naive<'a> {
    fn new(state: &'a SessionState) -> Self {
        Self { tasks: state.tasks.iter().collect() }
    }

    fn known(&self, id: &str) -> Option<&'a crate::TaskState> {
        self.tasks.get(id).copied().filter(|task| task.known)
    }

    fn raw_parent(&self, id: &str) -> Option<&'a str> {
        let parent = self.known(id)?.parent.as_ref()?.as_str();
        self.known(parent).map(|_| parent)
    }

    /// The parent, unless this is the first of a circle.
    fn parent(&self, id: &str) -> Option<&'a str> {
        let parent = self.raw_parent(id)?;
        let mut circle = BTreeSet::new();
        let mut at = Some(parent);
        while let Some(here) = at.filter(|here| circle.insert(*here)) {
            at = self.raw_parent(here);
        }
        let own_circle = at.is_some_and(|_| {
            let mut at = Some(parent);
            for _ in 0..self.tasks.len() {
                if at == Some(id) {
                    return true;
                }
                at = at.and_then(|at| self.raw_parent(at));
            }
            false
        });
        if !own_circle {
            return Some(parent);
        }
        let mut members = vec![parent];
        while *members.last().unwrap() != id {
            members.push(self.raw_parent(members.last().unwrap()).unwrap());
        }
        let first = members.iter().min_by_key(|id| self.known(id).unwrap().order).unwrap();
        (*first != id).then_some(parent)
    }

    fn children(&self, id: Option<&str>) -> Vec<&'a str> {
        let mut children: Vec<_> = self
            .tasks
            .iter()
            .filter(|(name, task)| task.known && self.parent(name) == id)
            .map(|(name, task)| (-task.priority, task.order, *name))
            .collect();
        children.sort_unstable();
        children.into_iter().map(|(_, _, name)| name).collect()
    }

    fn walk(&self, id: Option<&str>, depth: usize, into: &mut Vec<(&'a str, usize)>) {
        for child in self.children(id) {
            into.push((child, depth));
            self.walk(Some(child), depth + 1, into);
        }
    }

    fn waits(&self, id: &str) -> bool {
        let done = |id: &TaskId| self.known(id.as_str()).is_some_and(|t| t.status.is_done());
        !self.known(id).unwrap().depends.iter().all(done)
    }

    fn is_ready(&self, id: &str) -> bool {
        if self.known(id).unwrap().status != Planned || !self.children(Some(id)).is_empty() {
            return false;
        }
        let mut at = Some(id);
        while let Some(here) = at {
            let status = self.known(here).unwrap().status;
            if self.waits(here) || matches!(status, Failed | Blocked | Obsolete) {
                return false;
            }
            at = self.parent(here);
        }
        true
    }

    fn progress(&self, tasks: &[&str]) -> TaskProgress {
        let leaves = || tasks.iter().filter(|id| self.children(Some(id)).is_empty());
        let count = |with: &dyn Fn(TaskStatus) -> bool| {
            leaves().filter(|id| with(self.known(id).unwrap().status)).count() as u64
        };
        TaskProgress {
            all: leaves().count() as u64,
            complete: count(&|status| status == Complete),
            obsolete: count(&|status| status == Obsolete),
            failed: count(&|status| status == Failed),
            blocked: count(&|status| status == Blocked),
            active: count(&TaskStatus::is_active),
            planned: count(&|status| status == Planned),
            ready: leaves().filter(|id| self.is_ready(id)).count() as u64,
        }
    }
}

/// Two trees that tell the same.
fn same(tree: &TaskTree, other: &TaskTree) {
    // Where facts lie is known when they are recorded.
    let told = |tree: &TaskTree| -> Vec<(TaskNode, usize)> {
        let plain = |node: &TaskNode| TaskNode {
            created: Seq::ZERO,
            result: None,
            details: None,
            documents: None,
            ..node.clone()
        };
        tree.walk(None).map(|(node, depth)| (plain(node), depth)).collect()
    };
    assert_eq!(told(tree), told(other));
    assert_eq!(ready(tree), ready(other));
    let scopes = |tree: &TaskTree| -> Vec<TaskProgress> {
        tree.walk(None).map(|(node, _)| tree.progress(Some(&node.id))).collect()
    };
    assert_eq!(scopes(tree), scopes(other));
    assert_eq!((tree.progress(None), tree.len()), (other.progress(None), other.len()));
}

/// The tree tells what the fold has, and what looking at everything gives.
fn check(tree: &TaskTree, state: &SessionState) {
    same(tree, &TaskTree::of(&state.tasks));
    let naive = Naive::new(state);
    let mut walked = Vec::new();
    naive.walk(None, 0, &mut walked);
    let told: Vec<_> = tree.walk(None).map(|(node, depth)| (node.id.as_str(), depth)).collect();
    assert_eq!(told, walked);
    let all: Vec<&str> = walked.iter().map(|(id, _)| *id).collect();
    let by_sight: Vec<&str> = all.iter().copied().filter(|id| naive.is_ready(id)).collect();
    assert_eq!(ready(tree), by_sight);
    assert_eq!(tree.progress(None), naive.progress(&all));
    for (place, (id, depth)) in walked.iter().enumerate() {
        let rest = walked.iter().skip(place + 1).take_while(|(_, below)| below > depth);
        let scope: Vec<&str> = std::iter::once(*id).chain(rest.map(|(id, _)| *id)).collect();
        let name = TaskId::from(*id);
        assert_eq!(tree.progress(Some(&name)), naive.progress(&scope), "{id}");
        let within: Vec<&str> = scope.iter().copied().filter(|id| naive.is_ready(id)).collect();
        assert_eq!(ids(tree.ready(Some(&name))), within);
        assert_eq!(tree.walk(Some(&name)).count(), scope.len());
        assert!(scope.iter().all(|part| tree.contains(&name, part)));
        let task = state.tasks.get(id).unwrap();
        let node = tree.get(id).unwrap();
        assert_eq!((node.status, node.attempts), (task.status, task.attempts));
        assert_eq!((node.failures, &node.depends), (task.failures, &task.depends));
    }
}

/// The fold counts all recorded parts of a task, the tree those that stand below it.
#[test]
fn nothing_follows_from_the_parts_of_a_task_in_a_cycle_of_parents() {
    let mut journal = Journal::default();
    for (id, parent) in [("11", "5"), ("5", "11"), ("9", "5")] {
        journal.fact(TaskCreated {
            task: TaskId::from(id),
            parent: Some(TaskId::from(parent)),
            ..TaskCreated::default()
        });
    }
    let mut tree = TaskTree::of(&journal.state.tasks);
    for (id, status) in [("5", TaskStatus::Failed), ("9", TaskStatus::Complete)] {
        assert_eq!(journal.status(&TaskId::from(id), status), None);
        assert_eq!(tree.set_status(id, status), []);
        check(&tree, &journal.state);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert { parent: Option<u8>, depends: Vec<u8>, priority: i8 },
    Status(u8, u8),
    Depend(u8, Vec<u8>),
    Priority(u8, i8),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || proptest::collection::vec(any::<u8>(), 0..3);
    prop_oneof![
        3 => (proptest::option::weighted(0.8, any::<u8>()), some(), -1..2_i8)
            .prop_map(|(parent, depends, priority)| Step::Insert { parent, depends, priority }),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(task, status)| Step::Status(task, status)),
        2 => (any::<u8>(), some()).prop_map(|(task, depends)| Step::Depend(task, depends)),
        1 => (any::<u8>(), -2..3_i8).prop_map(|(task, priority)| Step::Priority(task, priority)),
    ]
}

/// Does anything wait for itself, by looking at everything: can every task get done in some order?
fn can_be_done(state: &SessionState) -> bool {
    let naive = Naive::new(state);
    let all: Vec<&str> =
        naive.tasks.keys().copied().filter(|id| naive.known(id).is_some()).collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = done.len();
        for id in &all {
            let children = naive.children(Some(id));
            let begun = || {
                let mut at = Some(*id);
                while let Some(here) = at {
                    let depends = &naive.known(here).unwrap().depends;
                    if !depends.iter().all(|id| done.contains(id.as_str())) {
                        return false;
                    }
                    at = naive.parent(here);
                }
                true
            };
            let now = if children.is_empty() {
                begun()
            } else {
                children.iter().all(|child| done.contains(child))
            };
            if now {
                done.insert(id);
            }
        }
        if done.len() == before {
            return done.len() == all.len();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_happens_the_tree_tells_what_looking_at_everything_gives(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut journal = Journal::default();
        let mut tree = TaskTree::default();
        let mut count = 0_usize;
        for step in steps {
            let name = |n: u8| format!("t{}", usize::from(n) % count.max(1));
            let names = |all: &[u8]| -> Vec<TaskId> { all.iter().map(|n| TaskId(name(*n))).collect() };
            match step {
                Step::Insert { parent, depends, priority } => {
                    let task = TaskCreated {
                        task: TaskId(format!("t{count}")),
                        parent: parent.filter(|_| count > 0).map(|n| TaskId(name(n))),
                        depends: if count > 0 { names(&depends) } else { Vec::new() },
                        priority: priority.into(),
                        ..TaskCreated::default()
                    };
                    let mut wished = Journal { state: journal.state.clone(), seq: journal.seq };
                    wished.fact(task.clone());
                    let inserted = tree.insert(&task);
                    prop_assert_eq!(inserted.is_ok(), can_be_done(&wished.state), "{:?}", inserted);
                    if let Ok(follows) = inserted {
                        count += 1;
                        prop_assert_eq!(journal.fact(task), None);
                        for (task, status) in follows {
                            prop_assert_eq!(journal.status(&task, status), None);
                        }
                    }
                }
                Step::Status(task, status) => {
                    let (id, status) = (name(task), TaskStatus::ALL[usize::from(status) % 8]);
                    if tree.check_status(&id, status).is_ok() {
                        // Whatever is allowed is not odd to the fold, and what follows neither.
                        prop_assert_eq!(journal.status(&id.as_str().into(), status), None);
                        for (task, status) in tree.set_status(&id, status) {
                            prop_assert_eq!(journal.status(&task, status), None);
                        }
                    }
                }
                Step::Depend(task, depends) => {
                    let (task, depends) = (TaskId(name(task)), names(&depends));
                    let change = TaskChange {
                        task: task.clone(),
                        depends: Some(depends.clone()),
                        ..TaskChange::default()
                    };
                    let mut wished = Journal { state: journal.state.clone(), seq: journal.seq };
                    let odd = wished.fact(change.clone());
                    let set = tree.set_depends(task.as_str(), &depends, &DependencyTypes::default());
                    let legal = odd.is_none() && can_be_done(&wished.state);
                    prop_assert_eq!(set.is_ok(), legal, "{:?}", set);
                    if set.is_ok() {
                        journal.fact(change);
                    }
                }
                Step::Priority(task, priority) => {
                    let task = TaskId(name(task));
                    if tree.set_priority(task.as_str(), priority.into()).is_ok() {
                        let priority = Some(priority.into());
                        journal.fact(TaskChange { task, priority, ..TaskChange::default() });
                    }
                }
            }
            check(&tree, &journal.state);
        }
    }

    /// Facts of any sort, odd ones too: the tree of the fold never panics, and goes on from there.
    #[test]
    fn any_journal_has_a_tree(
        tasks in proptest::collection::vec((0..12_u8, 0..14_u8, proptest::collection::vec(0..14_u8, 0..3)), 1..20),
        statuses in proptest::collection::vec((0..12_u8, 0..8_usize), 0..20),
        more in proptest::collection::vec((12..16_u8, 0..14_u8, proptest::collection::vec(0..14_u8, 0..3)), 0..4),
    ) {
        let mut journal = Journal::default();
        let task = |(id, parent, depends): &(u8, u8, Vec<u8>)| TaskCreated {
            task: TaskId(id.to_string()),
            parent: (*parent < 13).then(|| TaskId(parent.to_string())),
            depends: depends.iter().map(|id| TaskId(id.to_string())).collect(),
            ..TaskCreated::default()
        };
        for new in &tasks {
            journal.fact(task(new));
        }
        let mut tree = TaskTree::of(&journal.state.tasks);
        check(&tree, &journal.state);
        for (id, status) in statuses {
            let (id, status) = (TaskId(id.to_string()), TaskStatus::ALL[status]);
            if journal.status(&id, status).is_none() {
                for (task, status) in tree.set_status(id.as_str(), status) {
                    journal.status(&task, status);
                }
            }
            check(&tree, &journal.state);
        }
        for new in &more {
            let new = task(new);
            if let Ok(follows) = tree.insert(&new) {
                journal.fact(new);
                for (task, status) in follows {
                    journal.status(&task, status);
                }
            }
            check(&tree, &journal.state);
        }
    }
}
