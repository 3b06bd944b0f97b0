//! Tasks: a plan opened, one status changed durably, many in one write.

use std::sync::Arc;
use std::time::Instant;

use abide::{
    Kind, NewEvent, Payload, Session, SessionId, TaskStatus,
    event::EventLimits,
    maintenance::Upkeep,
    tasks::{SessionTasks, TaskCreated, TaskId, TaskStatusChange},
};
use tempfile::TempDir;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{Spent, millis};
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::fixture::Place;

const SIZES: [usize; 2] = [10_000, 100_000];
/// Ours and the bare appends take turns after so many.
const TURN: usize = 50;
const BATCH: usize = 1000;

pub(crate) fn measure(bench: &Bench) -> Outcome {
    for size in SIZES {
        let count = bench.scale.of(size);
        let plan = Plan::build(bench, count)?;
        open(bench, size, &plan)?;
        status(bench, size, &plan)?;
        batch(bench, size, &plan)?;
    }
    Ok(())
}

/// A closed session with a plan in it: phases of ten milestones of ten tasks, each task after the
/// one before it, each phase after the one before.
struct Plan {
    dir: TempDir,
    id: SessionId,
    leaves: Vec<TaskId>,
}

impl Plan {
    fn build(bench: &Bench, count: usize) -> Outcome<Self> {
        let dir = bench.fresh()?;
        let session = Arc::new(Place::of(dir.path(), Upkeep::Beside)?.session()?);
        let id = session.id();
        let mut tasks = SessionTasks::open(session)?;
        let mut leaves = Vec::new();
        let mut before: [Option<TaskId>; 2] = [None, None];
        for number in 0..count.div_ceil(100) {
            let phase = TaskId(format!("P{}", number + 1));
            let [last_phase, _] = &before;
            create(&mut tasks, &phase, None, last_phase.clone())?;
            for milestone in 1..=10 {
                let milestone = TaskId(format!("{phase}.M{milestone}"));
                create(&mut tasks, &milestone, Some(&phase), None)?;
                before[1] = None;
                for task in 1..=9 {
                    let task = TaskId(format!("{milestone}.T{task}"));
                    create(&mut tasks, &task, Some(&milestone), before[1].take())?;
                    before[1] = Some(task.clone());
                    leaves.push(task);
                }
            }
            before[0] = Some(phase);
        }
        tasks.flush()?;
        close(tasks)?;
        Ok(Self { dir, id, leaves })
    }

    fn open(&self) -> Outcome<Session> {
        Place::of(self.dir.path(), Upkeep::Beside)?.open(self.id)
    }
}

fn create(
    tasks: &mut SessionTasks,
    id: &TaskId,
    parent: Option<&TaskId>,
    after: Option<TaskId>,
) -> Outcome {
    Ok(tasks.create(TaskCreated {
        task: id.clone(),
        title: format!("What is to be done in {id}, told in a line of the usual length"),
        parent: parent.cloned(),
        depends: after.into_iter().collect(),
        ..TaskCreated::default()
    })?)
}

fn close(tasks: SessionTasks) -> Outcome {
    Ok(Arc::into_inner(tasks.into_session()).ok_or("the session is held")?.close()?)
}

/// From a closed session to a tree that can be worked on.
fn open(bench: &Bench, size: usize, plan: &Plan) -> Outcome {
    let target = if size == 10_000 { Target::AtMost(300.0) } else { Target::None };
    let mut figure = Figure::new(format!("tasks.open.{size}"), "ms", Better::Lower, target);
    let mut tree = Vec::new();
    for _ in 0..bench.rounds {
        let start = Instant::now();
        let session = Arc::new(plan.open()?);
        let opened = Instant::now();
        let tasks = SessionTasks::open(session)?;
        let first = tasks.tree().ready(None).next();
        figure.push(millis(start.elapsed()));
        tree.push(millis(opened.elapsed()));
        if first.is_none() {
            return Err("nothing is ready".into());
        }
        close(tasks)?;
    }
    figure.note("tasks", plan.leaves.len());
    figure.note("tree_ms", rounded(median(&tree)));
    bench.report(&figure)
}

fn change(task: &TaskId, status: TaskStatus) -> TaskStatusChange {
    TaskStatusChange { task: task.clone(), status, ..TaskStatusChange::default() }
}

/// The statuses of a task between which it can go to and fro.
const fn status_of(index: usize) -> TaskStatus {
    if index.is_multiple_of(2) { TaskStatus::Implementing } else { TaskStatus::Planned }
}

/// One durable change at a time, beside durable appends of the same size to a session that has
/// nothing in it.
fn status(bench: &Bench, size: usize, plan: &Plan) -> Outcome {
    let turns = (bench.scale.of(2000) / TURN).max(1);
    let count = turns * TURN;
    let mut figure =
        Figure::new(format!("tasks.status.{size}"), "ms", Better::Lower, Target::RatioAtMost(1.2));
    let (mut cpu, mut bare_cpu) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let bare = Place::of(plan.dir.path(), Upkeep::Beside)?.session()?;
        let mut tasks = SessionTasks::open(Arc::new(plan.open()?))?;
        let leaf = |index: usize| &plan.leaves[(index * 7919 + round) % plan.leaves.len()];
        let (mut ours, mut raw) = (Spent::default(), Spent::default());
        for turn in 0..turns {
            let first = turn * TURN;
            // As long as what is recorded for a status: with its task and its key.
            raw.add(|| {
                for index in first..first + TURN {
                    let data = format!(
                        r#"{{"task":"{}","status":"implementing","{}":""}}"#,
                        leaf(index),
                        "x".repeat(leaf(index).as_str().len() + 60)
                    );
                    let data = Payload::new(&data, &EventLimits::default()).expect("a payload");
                    let kind = Kind::new("bench.noted").expect("a kind");
                    bare.append(NewEvent::new(kind, data))
                        .expect("an append")
                        .wait()
                        .expect("an acknowledgement");
                }
            });
            ours.add(|| {
                for index in first..first + TURN {
                    let status = status_of(index);
                    tasks.set(change(leaf(index), status)).expect("a change");
                    tasks.flush().expect("a flush");
                }
            });
        }
        bare.close()?;
        close(tasks)?;
        let each = |spent: Spent| millis(spent.wall) / count as f64;
        figure.push_with_raw(each(ours), each(raw));
        cpu.push(ours.cpu_micros(count));
        bare_cpu.push(raw.cpu_micros(count));
    }
    figure.note("raw", "a durable append of the same size to an empty session");
    figure.note("changes", count);
    figure.note("cpu_us", rounded(median(&cpu)));
    figure.note("raw_cpu_us", rounded(median(&bare_cpu)));
    bench.report(&figure)
}

/// A thousand changes in one write.
fn batch(bench: &Bench, size: usize, plan: &Plan) -> Outcome {
    let mut figure = Figure::new(format!("tasks.batch.{size}"), "ms", Better::Lower, Target::None);
    let mut saved = 0;
    for round in 0..bench.rounds {
        let mut tasks = SessionTasks::open(Arc::new(plan.open()?))?;
        let start = Instant::now();
        for index in 0..BATCH {
            let leaf = &plan.leaves[index * plan.leaves.len() / BATCH];
            tasks.set(change(leaf, status_of(round)))?;
        }
        saved = tasks.flush()?.writes_saved;
        figure.push(millis(start.elapsed()));
        close(tasks)?;
    }
    figure.note("changes", BATCH);
    figure.note("writes_saved", saved);
    bench.report(&figure)
}
