//! Reports are recorded in the order in which they landed, whatever the clock and whoever dies.

use std::fs;
use std::process::Stdio;

use crate::hooked_agent::{HookedAgent, ID, lasting_process, until};
use abide_hooks::OwnReport;

#[test]
fn reports_keep_their_order_when_the_clock_jumps_back() {
    let agent = HookedAgent::new();
    let first = agent.lands(&agent.prompted("t1", "first"));
    // Landed while the clock was years ahead.
    let name = first.file_name().unwrap().to_str().unwrap();
    let (number, rest) = name.split_once('-').unwrap();
    let ahead = number.parse::<u128>().unwrap() + 100_000_000_000_000;
    fs::rename(&first, first.with_file_name(format!("{ahead:020}-{rest}"))).unwrap();
    for (turn, text) in [("t2", "second"), ("t3", "third")] {
        agent.lands(&agent.prompted(turn, text));
    }
    agent.drains();
    assert_eq!(agent.context(), ["user: first", "user: second", "user: third"]);
}

#[test]
fn a_report_waits_for_the_one_before_it_whose_files_are_captured() {
    let agent = HookedAgent::new();
    agent.tells(&agent.started());
    let landed = agent.inbox().land(ID, &agent.prompted("t1", "first")).unwrap();
    // The process that captures has the lock, as its stdin.
    let mut captures = lasting_process(Stdio::from(landed.file));
    let own = agent.inbox().land(ID, &agent.prompted("t2", "second")).unwrap();
    agent.lands(&agent.prompted("t3", "third"));
    agent.drains_once(None);
    assert_eq!(agent.waiting().len(), 3, "whoever has no report of his own leaves them");
    std::thread::scope(|scope| {
        let agent = &agent;
        let drain = scope.spawn(move || {
            let (name, file) = (own.name, own.file);
            agent.drains_once(Some(OwnReport { name, captured: None, without_files: None, file }));
        });
        // It dies, and its report is recorded all the same.
        captures.kill().unwrap();
        captures.wait().unwrap();
        drain.join().unwrap();
    });
    agent.drains();
    assert_eq!(agent.context(), ["user: first", "user: second", "user: third"]);
}

#[test]
fn what_is_no_report_is_removed_and_the_others_are_recorded() {
    let agent = HookedAgent::new();
    let path = agent.lands(&agent.prompted("t1", "first"));
    for (n, text) in ["", "{", "\n\n", "{\"v\":1}\n{}", "\u{fffd}"].iter().enumerate() {
        fs::write(path.with_file_name(format!("0000000000000000000{n}-x.json")), text).unwrap();
    }
    agent.drains();
    assert_eq!(agent.context(), ["user: first"]);
}

#[test]
fn sessions_with_names_that_are_no_names_of_directories_stay_in_the_inbox() {
    let agent = HookedAgent::new();
    let root = fs::canonicalize(agent.work().parent().unwrap()).unwrap();
    let inboxes = agent.inboxes();
    let long = "x".repeat(150);
    for id in ["..", "../../../escaped", "/escaped", "a b", "é", ".hidden", &long] {
        inboxes.session(agent.kind, id).land(id, &agent.started().replace(ID, id)).unwrap();
    }
    assert_eq!(inboxes.sessions().len(), 7, "each has its own");
    let mut names: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["store", "work"]);
    until("all are recorded", || {
        agent.sweeps();
        inboxes.sessions().iter().all(abide_hooks::SessionInbox::is_empty)
    });
    assert_eq!(agent.store.sessions().unwrap().len(), 7);
}

#[test]
fn a_session_that_has_ended_is_forgotten_unless_a_report_waits() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "first"));
    agent.tells(&agent.ended());
    assert!(agent.inboxes().sessions().is_empty());
    agent.tells(&agent.prompted("t2", "second"));
    assert_eq!(agent.context(), ["user: first", "user: second"]);
    assert_eq!(agent.turns(), ["+", "interrupted", "+"]);
}
