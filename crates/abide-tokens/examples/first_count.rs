#![allow(clippy::print_stdout, reason = "it is a program that prints")]
//! Measures the first count in a process: its time, and the memory that it needs.
//!
//! `cargo run --release -p abide-tokens --example first_count [o200k_base|cl100k_base] [FILE]`

use std::time::Instant;

use abide_tokens::Encoding;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let encoding = match arguments.next().as_deref() {
        Some("cl100k_base") => Encoding::Cl100kBase,
        _ => Encoding::O200kBase,
    };
    let text =
        arguments.next().map_or_else(|| Ok("hello world".to_owned()), std::fs::read_to_string)?;
    let before = peak_memory();
    for _ in 0..2 {
        let start = Instant::now();
        let tokens = encoding.count(&text);
        let time = start.elapsed();
        println!("{tokens} tokens in {time:.1?}, {before} before, {} after", peak_memory());
    }
    Ok(())
}

/// The most memory that this process had, as Linux says it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap_or("unknown").trim().to_owned()
}
