//! Every example, run in a process of its own with a home of its own: it ends well and says what
//! it is meant to say.
//!
//! The examples are parts of this binary, which starts itself for each of them: where cargo puts
//! the programs of examples depends on what it was asked to build.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use abide_testkit::stub_model::{StubAnswer, StubModel};

use crate::agent::example as agent;

#[path = "../../examples/checkpoint.rs"]
mod checkpoint;
#[path = "../../examples/compact.rs"]
mod compact;
#[path = "../../examples/context.rs"]
mod context;
/// Its arguments are given to its function instead.
#[allow(dead_code, unreachable_pub)]
#[path = "../../examples/follow.rs"]
mod follow;
#[path = "../../examples/fork.rs"]
mod fork;
#[path = "../../examples/record.rs"]
mod record;
#[path = "../../examples/resume.rs"]
mod resume;
#[path = "../../examples/search.rs"]
mod search;
#[path = "../../examples/tasks.rs"]
mod tasks;

type Run = fn() -> Result<(), Box<dyn Error>>;

/// What the agent is asked to do, in the directory that it is started in.
const PROMPT: &str = "Tidy up";

/// Each example with a line that it prints. `follow` follows what `agent` has recorded.
const EXAMPLES: [(&str, Run, &str); 10] = [
    ("agent", || agent::work(PROMPT, "."), "All is tidy."),
    ("checkpoint", checkpoint::main, "rewound: 1 changed, 1 deleted"),
    ("compact", compact::main, "undone: 101 messages again"),
    ("context", context::main, "a request with 4 fields"),
    (
        "follow",
        || Ok(follow::follow(PROMPT, ".", Duration::from_millis(50))?),
        "nothing new for 0 seconds",
    ),
    ("fork", fork::main, "forked after event 3"),
    ("record", record::main, "2 messages, no open calls"),
    ("resume", resume::main, "release: outcome unknown"),
    ("search", search::main, "3 sessions searched"),
    ("tasks", tasks::main, "3 of 3 tasks done"),
];

/// The example that the other test asks for. Alone it does nothing.
#[test]
#[ignore = "it is what the other test starts"]
fn the_example() {
    let name = std::env::var("ABIDE_EXAMPLE").unwrap();
    let (_, run, _) = EXAMPLES.iter().find(|(known, ..)| *known == name).unwrap();
    // What the harness prints has no line of its own.
    println!();
    run().unwrap();
}

/// Runs an example in this directory, with the directory `home` in it as its home; gives its output.
fn run(name: &str, dir: &Path, model: &StubModel) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "examples::the_example", "--ignored", "--nocapture"]);
    for of in ["DATA", "STATE", "CACHE", "CONFIG"] {
        command.env_remove(format!("XDG_{of}_HOME"));
    }
    let out = command
        .env_remove("ABIDE_STORE")
        .env_remove("ABIDE_SESSION")
        .env("ABIDE_EXAMPLE", name)
        .env("HOME", dir.join("home"))
        .env("OPENAI_BASE_URL", model.base_url())
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&out.stderr));
    said
}

#[test]
fn every_example_ends_well_and_says_what_it_is_meant_to() {
    let model = StubModel::answering(|_| StubAnswer::text("All is tidy.")).unwrap();
    let project = tempfile::tempdir().unwrap();
    for (name, _, expected) in EXAMPLES {
        let alone = tempfile::tempdir().unwrap();
        let dir = if ["agent", "follow"].contains(&name) { &project } else { &alone };
        fs::create_dir_all(dir.path().join("home")).unwrap();
        let said = run(name, dir.path(), &model);
        assert!(said.lines().any(|line| line == expected), "{name} says no {expected:?}: {said}");
        if name == "follow" {
            assert!(said.contains("All is tidy."), "the agent's answer is not followed: {said}");
        }
    }
}

#[test]
fn every_example_is_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let there: BTreeSet<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let run: BTreeSet<String> = EXAMPLES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(there, run);
}
