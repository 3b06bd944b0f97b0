#![allow(clippy::print_stdout, reason = "it is a program that prints")]
//! Measures redaction: `cargo run --release -p abide-secrets --example speed [MB] [FILE…]`
//!
//! The messages are the lines of the files (else the sample sessions of `abide-transcript`), over and over
//! until they are so many megabytes (else 64).

use std::error::Error;
use std::time::{Duration, Instant};

use abide_secrets::{Literals, MarkKey, Redactor, RuleSet};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let mut paths: Vec<std::path::PathBuf> = arguments.map(Into::into).collect();
    if paths.is_empty() {
        let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../abide-transcript/samples");
        for entry in std::fs::read_dir(samples)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                paths.push(path);
            }
        }
    }
    let mut lines = Vec::new();
    for path in paths {
        lines.extend(std::fs::read_to_string(path)?.lines().map(str::to_owned));
    }

    let before = resident();
    let begun = Instant::now();
    let redactor = Redactor::new(RuleSet::load()?, Literals::default(), MarkKey::new([7; 32]));
    let start = begun.elapsed();
    let begun = Instant::now();
    let _ = redactor
        .redact_json(r#"{"role":"user","content":"Please fix the tests of the parser."}"#)?;
    println!("start {start:.1?}, first message {:.1?}", begun.elapsed());

    let (mut bytes, mut marks, mut not_json) = (0, 0, 0);
    let mut times: Vec<Duration> = Vec::new();
    let begun = Instant::now();
    while bytes < megabytes << 20 {
        for line in &lines {
            let one = Instant::now();
            match redactor.redact_json(line) {
                Ok(redacted) => marks += redacted.tally().total(),
                Err(_) => not_json += 1,
            }
            times.push(one.elapsed());
            bytes += line.len();
        }
    }
    let all = begun.elapsed();
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or_default();
    println!(
        "{} messages, {:.1} MB in {all:.2?}: {:.0} MB/s; p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, max {:.1?}; {marks} marks, {not_json} no JSON",
        times.len(),
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / all.as_secs_f64(),
        at(500),
        at(990),
        at(999),
        times.last().copied().unwrap_or_default()
    );
    println!("resident: {before} kB before, {} kB after", resident());

    let mut long = lines.concat();
    let mut end = (1 << 20).min(long.len());
    while !long.is_char_boundary(end) {
        end -= 1;
    }
    long.truncate(end);
    for (name, text) in [
        ("1 MB of these lines", long),
        ("1 MB of tokens' beginnings", "eyJ".repeat(350_000)),
        ("1 MB of begun keys", "-----BEGIN PRIVATE KEY-----\n".repeat(37_000)),
        ("1 MB of keywords", "twilio discord curl -u linear api_key ".repeat(27_000)),
    ] {
        let begun = Instant::now();
        let outcome = redactor.redact_text(&text).map(|redacted| redacted.tally().total());
        println!("{name}: {:.1?}, {outcome:?}", begun.elapsed());
    }
    Ok(())
}

/// The memory that this process has, as Linux says it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").to_owned()
}
