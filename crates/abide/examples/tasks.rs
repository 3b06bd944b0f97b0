//! Works through a task list: adds tasks with parts and dependencies, takes the next one that can
//! be started, and finishes it. A task with parts is complete once its parts are.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use abide::tasks::{SessionTasks, TaskCreated, TaskNode, TaskStatusChange};
use abide::{NewSession, Store, TaskStatus};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let store = Store::open_or_init(project.path())?;
    let session = Arc::new(store.create(NewSession::titled("Release"))?);

    let mut tasks = SessionTasks::open(session.clone())?;
    tasks.create(task("release", "Release version 2"))?;
    for (id, title) in [("test", "Run the tests"), ("notes", "Write the release notes")] {
        tasks.create(TaskCreated { parent: Some("release".into()), ..task(id, title) })?;
    }
    // The highest priority, but it has to wait.
    tasks.create(TaskCreated {
        parent: Some("release".into()),
        depends: vec!["test".into(), "notes".into()],
        priority: 9,
        ..task("publish", "Publish the packages")
    })?;
    // One durable write for all of them.
    tasks.flush()?;

    let mut order = Vec::new();
    loop {
        let next = tasks.tree().ready(None).next().cloned();
        let Some(TaskNode { id, title, .. }) = next else { break };
        tasks.set(status(id.as_str(), TaskStatus::Implementing))?;
        tasks.flush()?;
        println!("working on: {title}");
        tasks.set(status(id.as_str(), TaskStatus::Complete))?;
        tasks.flush()?;
        order.push(id.to_string());
    }
    assert_eq!(order, ["test", "notes", "publish"]);

    // What any other process sees.
    let tree = session.view().tasks()?;
    let release = tree.get("release").ok_or("it was created")?;
    assert_eq!(release.status, TaskStatus::Complete, "all of its parts are done");
    let progress = tree.progress(None);
    println!("{} of {} tasks done", progress.done(), progress.all);
    Ok(())
}

fn task(id: &str, title: &str) -> TaskCreated {
    TaskCreated { task: id.into(), title: title.to_owned(), ..TaskCreated::default() }
}

fn status(id: &str, status: TaskStatus) -> TaskStatusChange {
    TaskStatusChange { task: id.into(), status, ..TaskStatusChange::default() }
}
