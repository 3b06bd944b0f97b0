//! Follows the session of the example `agent` live, from another process. Only acknowledged events
//! come: nothing that a power cut could take back.
//!
//! `cargo run -p abide --example follow -- "Tidy up" [DIR]`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use abide::{Seq, SessionRef, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().ok_or("what is the agent to do?")?;
    let dir = arguments.next().unwrap_or_else(|| ".".to_owned());
    Ok(follow(&prompt, &dir, Duration::from_secs(10))?)
}

/// Shows each event as it comes, until there is nothing new for this long.
pub fn follow(prompt: &str, dir: &str, patience: Duration) -> Result<(), abide::Error> {
    let session = SessionRef::Key(format!("examples/agent/{prompt}"));
    let mut follow = Store::open(dir)?.view(&session)?.follow(Seq::FIRST);
    while let Some(event) = follow.next_within(patience)? {
        println!("{}", event.to_json());
    }
    for note in follow.take_notes() {
        println!("note: {note}");
    }
    println!("nothing new for {} seconds", patience.as_secs());
    Ok(())
}
