//! A small agent that outlives itself: kill it, run it again, and it goes on where it was.
//!
//! `cargo run -p abide --example agent -- [DIR]`

#![allow(clippy::print_stdout)]

use std::process::Command;

use abide::{NewEvent, NewSession, Store, TaskCreated, TaskStatus, TaskStatusChange};
use abide::{ToolCall, ToolResult};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let session = Store::open_or_init(dir)?
        .create_or_get("examples/agent", NewSession::titled("Three commands"))?;
    let before = session.state()?;
    for (task, command) in [("T1", "date"), ("T2", "sleep 3"), ("T3", "uname")] {
        if before.tasks.get(task).is_some_and(|task| task.status.is_done()) {
            println!("{task} was done before");
            continue;
        }
        // Under its key, the task is created once, however often the agent starts.
        let created = TaskCreated {
            task: task.into(),
            title: command.to_owned(),
            parent: None,
            depends: Vec::new(),
            priority: 0,
        };
        session.append(NewEvent::try_from(created)?.with_key(task))?.wait()?;
        if before.calls.get(task).is_some() {
            println!("{task} was running when the agent died: its outcome is not known");
            session.append(ToolResult { call: task.into(), ok: false, result: None })?.wait()?;
        }

        // Intent before effect: the call is on stable storage before the command runs.
        let call =
            ToolCall { call: task.into(), name: "sh".into(), arguments: None, observed: false };
        session.append(call)?.wait()?;
        let ok = Command::new("sh").arg("-c").arg(command).status()?.success();
        let result = ToolResult { call: task.into(), ok, result: None };
        let status = TaskStatusChange {
            task: task.into(),
            status: if ok { TaskStatus::Complete } else { TaskStatus::Failed },
            foreign: None,
            reason: None,
            result: None,
        };
        // One batch, one sync. Of a batch that a crash interrupts, the first part may be there: the
        // status comes first, so that what was done is not done again.
        session.append_all(vec![status.try_into()?, result.try_into()?])?.wait()?;
        println!("{task} is done");
    }
    session.close()?;
    Ok(())
}
