//! Follows the session of the example `agent` live, from another process.
//!
//! `cargo run -p abide --example follow -- [DIR]`

#![allow(clippy::print_stdout)]

use std::time::Duration;

use abide::{Seq, SessionRef, Store};

fn main() -> Result<(), abide::Error> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let view = Store::open(dir)?.view(&SessionRef::Key("examples/agent".to_owned()))?;
    let mut follow = view.follow(Seq::FIRST);
    // Only what is acknowledged comes: nothing that a power cut could take back.
    while let Some(event) = follow.next_within(Duration::from_secs(10))? {
        println!("{}", event.to_json());
    }
    for note in follow.take_notes() {
        println!("note: {note}");
    }
    println!("nothing new for ten seconds");
    Ok(())
}
