//! `abide doctor --repair`: each kind of damage is made on real files; then the finding, the plan,
//! the repair, and that every event that was not damaged is kept, byte for byte.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::environment::{ABIDE, HELLO, TestEnvironment, files, run};

/// A store with a session that has several segments, turns, tasks, a large payload and a checkpoint.
struct Patient {
    env: TestEnvironment,
    /// The lines of its export before anything was damaged.
    events: Vec<String>,
}

const TURNS: usize = 24;

impl Patient {
    fn new() -> Self {
        let env = TestEnvironment::new();
        env.run(&["init"]).success();
        let config = env.project().join(".abide/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        let small = text.replace("segment_bytes = 4194304", "segment_bytes = 4096");
        assert_ne!(text, small);
        // What is damaged below stands in plain segments.
        let small = small.replace("# seal = false", "seal = false");
        fs::write(&config, small.replace("object_bytes = 65536", "object_bytes = 1024")).unwrap();
        env.keep_transcripts();
        fs::write(env.project().join("code.rs"), "fn main() {}\n").unwrap();
        let mut lines = vec![
            r#"{"kind":"session.status","data":{"status":"running"}}"#.to_owned(),
            r#"{"kind":"task.created","data":{"task":"T1","title":"build"}}"#.to_owned(),
        ];
        for turn in 0..TURNS {
            let large = if turn == 3 { "large ".repeat(400) } else { format!("answer {turn}") };
            lines.extend([
                r#"{"kind":"turn.started","data":{"agent":"coder"}}"#.to_owned(),
                format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"question {turn}: {}"}}}}"#, "x".repeat(200)),
                format!(r#"{{"kind":"message.added","data":{{"role":"assistant","content":"{large}"}}}}"#),
                r#"{"kind":"turn.finished","data":{"status":"done"}}"#.to_owned(),
            ]);
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        // What is sent at once stays in one segment.
        for part in lines.chunks(18) {
            env.record(&["--key", "s"], part).success();
        }
        env.run(&["checkpoint", "create"]).success();
        let after =
            r#"{"kind":"message.added","data":{"role":"user","content":"after the checkpoint"}}"#;
        env.record(&["--key", "s"], &[after]).success();
        env.run(&["history"]).success();
        let mut patient = Self { env, events: Vec::new() };
        patient.events = patient.export();
        assert!(patient.segments().len() >= 4, "{:?}", patient.segments());
        assert_eq!(patient.rules(&patient.doctor(0)), [""; 0], "it is healthy at first");
        patient
    }

    fn export(&self) -> Vec<String> {
        let done = self.env.run(&["export", "--format", "jsonl"]);
        done.stdout().lines().map(str::to_owned).collect()
    }

    fn dir(&self) -> PathBuf {
        self.env.session_dir()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = fs::read_dir(self.dir().join("journal"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths
    }

    fn store(&self, name: &str) -> PathBuf {
        self.env.project().join(".abide").join(name)
    }

    /// Examines, and expects this exit code.
    fn doctor(&self, code: i32) -> Value {
        self.env.run(&["doctor", "--json"]).failure(code).json_lines().remove(0)
    }

    fn rules<'a>(&self, report: &'a Value) -> Vec<&'a str> {
        let findings = report["findings"].as_array().unwrap();
        let mut rules: Vec<_> =
            findings.iter().map(|finding| finding["rule"].as_str().unwrap()).collect();
        rules.dedup();
        rules
    }

    /// The whole way: the finding, a plan that changes nothing, the repair, a clean second look, and
    /// all that was not damaged. Gives the report of the repair.
    fn heal(&self, rule: &str, severity: &str, action: &str) -> Value {
        let code = i32::from(severity != "warning");
        let report = self.doctor(code);
        let finding = finding(&report, rule);
        assert_eq!(finding["severity"], severity, "{finding}");
        assert!(finding["type"].is_string() && finding["message"].is_string(), "{finding}");
        assert!(
            ["path", "seq", "subject"].iter().any(|part| !finding["place"][part].is_null()),
            "{finding}"
        );
        assert_eq!(finding["repair"]["automatic"], true, "{finding}");
        let before = self.truth();
        let plan = self.env.run(&["doctor", "--repair", "--dry-run", "--json"]);
        let plan = plan.failure(code).json_lines().remove(0);
        assert!(actions(&plan).contains(&action), "{plan}");
        assert_eq!(self.truth(), before, "a plan changes nothing");
        // Without a terminal and without `--yes` nothing is done either.
        self.env.run(&["doctor", "--repair"]).failure(1);
        assert_eq!(self.truth(), before, "nothing is done without a yes");
        let done = self.env.run(&["doctor", "--repair", "--yes", "--json"]).success();
        let done = done.json_lines().remove(0);
        assert_eq!(self.rules(&done), [""; 0], "{done}");
        assert_eq!(self.rules(&self.doctor(0)), [""; 0], "a second look is clean");
        done
    }

    /// Everything that is not derived: settings, journals, packs.
    fn truth(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = files(&self.store(""));
        all.retain(|(path, _)| {
            let path = path.to_string_lossy();
            ["/journal/", "/objects/", "config.toml", "/quarantine/"]
                .iter()
                .any(|part| path.contains(part))
                && !path.ends_with("lock")
        });
        all
    }

    /// Every event is there as it was, but for these.
    fn keeps_all_but(&self, lost: &[u64]) {
        let now = self.export();
        let mut missing = Vec::new();
        for line in &self.events {
            if !now.contains(line) {
                let event: Value = serde_json::from_str(line).unwrap();
                missing.push(event["seq"].as_u64().unwrap());
            }
        }
        assert_eq!(missing, lost, "of {} events", self.events.len());
    }

    /// The damage is back after an undo, and repaired once more.
    fn undo_and_repair(&self, rule: &str) {
        let undone = self.env.run(&["undo", "--repair", "--yes"]).success();
        assert!(undone.stdout().contains("Undo the repair"), "{undone:?}");
        let report = self.doctor(1);
        assert!(self.rules(&report).contains(&rule), "{report}");
        self.env.run(&["doctor", "--repair", "--yes"]).success();
        assert_eq!(self.rules(&self.doctor(0)), [""; 0]);
    }

    fn recovery(&self) -> Value {
        let events = self.export();
        let last = events.iter().rev().find(|line| line.contains("recovery.performed")).unwrap();
        serde_json::from_str::<Value>(last).unwrap()["data"].clone()
    }

    /// The session can be recorded to and read.
    fn goes_on(&self) {
        let more = r#"{"kind":"message.added","data":{"role":"user","content":"and on"}}"#;
        self.env.record(&["--key", "s"], &[more]).success();
        assert!(self.export().iter().any(|line| line.contains("and on")));
        assert_eq!(self.rules(&self.doctor(0)), [""; 0]);
    }
}

fn finding<'a>(report: &'a Value, rule: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["rule"] == rule)
        .unwrap_or_else(|| panic!("no {rule} in {report}"))
}

fn actions(report: &Value) -> Vec<&str> {
    let plans = report["plans"].as_array().unwrap();
    let actions = plans.iter().flat_map(|plan| plan["actions"].as_array().unwrap());
    actions.map(|action| action["action"].as_str().unwrap()).collect()
}

fn strategy(report: &Value) -> &str {
    let plans = report["plans"].as_array().unwrap();
    plans.iter().find_map(|plan| plan["strategy"].as_str()).unwrap()
}

/// Where the n-th line of a file starts.
fn line_at(bytes: &[u8], number: usize) -> usize {
    let breaks: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    breaks[number - 1]
}

/// Where a line starts that holds a message.
fn a_message(bytes: &[u8]) -> usize {
    let lines = (1..).map(|number| line_at(bytes, number));
    lines
        .into_iter()
        .find(|at| bytes[*at..].starts_with(b"{\"seq\"") && is_message(&bytes[*at..]))
        .unwrap()
}

fn is_message(line: &[u8]) -> bool {
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    String::from_utf8_lossy(&line[..end]).contains("message.added")
}

fn alter(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn seq_of(line: &[u8]) -> u64 {
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    serde_json::from_slice::<Value>(&line[..end]).unwrap()["seq"].as_u64().unwrap()
}

fn no_transcript(patient: &Patient) {
    fs::remove_file(patient.dir().join("transcript.task")).unwrap();
}

#[test]
fn a_flipped_bit_is_written_again_from_the_transcript() {
    let patient = Patient::new();
    alter(&patient.segments()[1], |bytes| {
        let at = line_at(bytes, 3);
        bytes[at + 40] ^= 4;
    });
    let done = patient.heal("journal-damage", "error", "rewrite_segment");
    assert_eq!(strategy(&done), "reconstruct");
    patient.keeps_all_but(&[]);
    let recovery = patient.recovery();
    assert_eq!(recovery["source"], "transcript", "{recovery}");
    assert_eq!(recovery["requires_validation"], Value::Null, "{recovery}");
    patient.undo_and_repair("journal-damage");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_flipped_bit_without_a_transcript_is_named_as_lost_and_accepted() {
    let patient = Patient::new();
    no_transcript(&patient);
    let mut lost = 0;
    alter(&patient.segments()[1], |bytes| {
        let at = a_message(bytes);
        lost = seq_of(&bytes[at..]);
        bytes[at + 40] ^= 4;
    });
    let done = patient.heal("journal-damage", "error", "name_lost");
    assert_eq!(strategy(&done), "partial");
    patient.keeps_all_but(&[lost]);
    let report = patient.doctor(0);
    assert_eq!(report["awaiting"][0]["missing"]["events"][0], serde_json::json!([lost, lost]));
    let shown = patient.env.run(&["doctor"]).success();
    assert!(shown.stdout().contains(&format!("missing: event {lost}")), "{shown:?}");
    let id = report["awaiting"][0]["session"].as_str().unwrap().to_owned();
    patient.env.run(&["doctor", &id, "--accept"]).success();
    assert_eq!(patient.doctor(0)["awaiting"], serde_json::json!([]));
    patient.env.run(&["doctor", &id, "--accept"]).success();
    patient.goes_on();
}

#[test]
fn zeros_over_many_lines_cost_those_lines() {
    let patient = Patient::new();
    no_transcript(&patient);
    let mut lost = Vec::new();
    alter(&patient.segments()[2], |bytes| {
        let (from, to) = (line_at(bytes, 2), line_at(bytes, 6));
        for line in [2, 3, 4, 5] {
            lost.push(seq_of(&bytes[line_at(bytes, line)..]));
        }
        bytes[from..to].fill(0);
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&lost);
    patient.undo_and_repair("journal-damage");
    patient.keeps_all_but(&lost);
    patient.goes_on();
}

#[test]
fn a_torn_tail_is_cut_and_nothing_is_lost() {
    let patient = Patient::new();
    let last = patient.segments().pop().unwrap();
    alter(&last, |bytes| bytes.extend_from_slice(br#"{"seq":999,"at":"2026"#));
    patient.heal("torn-tail", "warning", "cut_tail");
    patient.keeps_all_but(&[]);
    patient.goes_on();
    // What was recorded since stays when the repair is taken back.
    let before = patient.export();
    patient.env.run(&["undo", "--repair", "--yes"]).success();
    let after = patient.export();
    assert!(before.iter().all(|line| after.contains(line)));
    patient.goes_on();
}

#[test]
fn lost_lines_at_the_start_of_a_segment_are_read_from_there_after_a_repair() {
    let patient = Patient::new();
    let mut lost = Vec::new();
    alter(&patient.segments()[1], |bytes| {
        for line in [1, 2, 3] {
            let at = line_at(bytes, line);
            lost.push(seq_of(&bytes[at..]));
            bytes[at + 30] ^= 1;
        }
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    let whole = |args: &[&str]| {
        let done = patient.env.run(args).success();
        assert!(!done.stderr.contains("Warning"), "{done:?}");
        done.json_lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let count = patient.export().len();
    for back in 1..count {
        let seqs = whole(&["tail", "-n", &back.to_string(), "--json"]);
        assert_eq!(seqs.len(), back);
        assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seqs:?}");
    }
    patient.undo_and_repair("journal-damage");
}

#[test]
fn a_journal_that_is_gone_does_not_reuse_numbers_that_its_watermark_knows() {
    let patient = Patient::new();
    let more = r#"{"kind":"x.more","data":{}}"#;
    let transcript = fs::read(patient.dir().join("transcript.task")).unwrap();
    patient.env.record(&["--key", "s"], &[more]).success();
    fs::write(patient.dir().join("transcript.task"), transcript).unwrap();
    fs::remove_file(patient.store("index.db")).unwrap();
    let last = patient.export().len() as u64;
    fs::remove_dir_all(patient.dir().join("journal")).unwrap();
    patient.heal("session-unreadable", "critical", "rewrite_segment");
    let missing = &patient.doctor(0)["awaiting"][0]["missing"]["events"];
    assert!(missing[0][1].as_u64().unwrap() >= last - 1, "{missing} of {last}");
    patient.goes_on();
}

#[test]
fn what_is_erased_is_not_kept_in_the_quarantine() {
    let patient = Patient::new();
    alter(&patient.segments()[1], |bytes| {
        let at = line_at(bytes, 3);
        bytes[at + 40] ^= 4;
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    let kept = || {
        files(&patient.store("quarantine"))
            .into_iter()
            .any(|(_, bytes)| bytes.windows(10).any(|part| part == b"question 5"))
    };
    assert!(kept(), "the original is kept");
    patient.env.run(&["erase", "--match", "question 5", "--yes"]).success();
    assert!(!kept(), "and goes with what is erased from it");
    // There is nothing left to undo.
    patient.env.run(&["undo", "--repair", "--yes"]).failure(1);
}

#[test]
fn a_healthy_session_does_not_go_back_because_a_strategy_is_named() {
    let patient = Patient::new();
    let done = patient.env.run(&["doctor", "--repair", "--strategy", "checkpoint", "--yes"]);
    let done = done.success();
    assert!(done.stderr.contains("There is nothing to repair"), "{done:?}");
    patient.keeps_all_but(&[]);
}

#[test]
fn a_segment_that_is_cut_short_is_filled_up() {
    let patient = Patient::new();
    let mut lost = Vec::new();
    alter(&patient.segments()[1], |bytes| {
        let at = line_at(bytes, 4);
        let text = String::from_utf8(bytes[at..].to_vec()).unwrap();
        lost.extend(text.lines().map(|line| seq_of(line.as_bytes())));
        bytes.truncate(at + 7);
    });
    assert!(!lost.is_empty());
    let done = patient.heal("journal-damage", "error", "rewrite_segment");
    assert_eq!(strategy(&done), "reconstruct");
    patient.keeps_all_but(&[]);
    patient.undo_and_repair("journal-damage");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_segment_that_is_gone_is_written_again() {
    let patient = Patient::new();
    fs::remove_file(&patient.segments()[1]).unwrap();
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.undo_and_repair("journal-damage");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn the_first_segment_that_is_gone_is_written_again() {
    let patient = Patient::new();
    fs::remove_file(&patient.segments()[0]).unwrap();
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn the_last_segment_that_is_gone_is_written_again() {
    let patient = Patient::new();
    fs::remove_file(patient.segments().pop().unwrap()).unwrap();
    // Whoever brings the transcript up to date now must not cut off what is only there.
    patient.env.run(&["show"]);
    patient.heal("journal-damage", "error", "rewrite_segment");
    // The note that a writer closed comes behind what is acknowledged.
    let now = patient.export();
    let acknowledged = patient.events.iter().filter(|line| !line.contains("writer.closed"));
    let missing: Vec<_> = acknowledged.filter(|line| !now.contains(line)).collect();
    assert_eq!(missing, [""; 0]);
    patient.goes_on();
    // What came later is in a segment of its own, and stays when the repair is taken back.
    patient.env.run(&["undo", "--repair", "--yes"]).success();
    assert!(patient.export().iter().any(|line| line.contains("and on")));
    patient.env.run(&["doctor", "--repair", "--yes"]).success();
    patient.goes_on();
}

#[test]
fn what_is_recorded_behind_a_repair_of_the_last_segment_stays_when_it_is_undone() {
    let patient = Patient::new();
    let last = patient.segments().pop().unwrap();
    assert!(fs::metadata(&last).unwrap().len() < 4096, "there is room for more in it");
    alter(&last, |bytes| {
        let at = a_message(bytes);
        bytes[at + 40] ^= 4;
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.goes_on();
    patient.env.run(&["undo", "--repair", "--yes"]).success();
    let stands = |text: &str| patient.export().iter().any(|line| line.contains(text));
    assert!(stands("and on") && stands(r#""strategy":"reconstruct""#));
    patient.env.run(&["doctor", "--repair", "--yes"]).success();
    patient.goes_on();
}

#[test]
fn a_header_that_is_damaged_costs_nothing() {
    let patient = Patient::new();
    alter(&patient.segments()[1], |bytes| bytes[20] ^= 1);
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.undo_and_repair("journal-damage");
    patient.goes_on();
}

#[test]
fn a_line_that_stands_twice_is_taken_out() {
    let patient = Patient::new();
    alter(&patient.segments()[1], |bytes| {
        let (from, to) = (line_at(bytes, 2), line_at(bytes, 3));
        let copy = bytes[from..to].to_vec();
        let at = line_at(bytes, 4);
        bytes.splice(at..at, copy);
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

/// The sealed segments, once a cleanup has made them.
fn seal(patient: &Patient) -> Vec<PathBuf> {
    let config = patient.store("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("seal = false", "# seal = false")).unwrap();
    let done = patient.env.run(&["cleanup"]).success();
    assert!(done.stdout().contains("Compressed "), "{done:?}");
    let segments = patient.segments().into_iter();
    let sealed: Vec<_> = segments.filter(|path| path.to_string_lossy().ends_with(".zst")).collect();
    assert!(sealed.len() > 1, "{:?}", patient.segments());
    sealed
}

#[test]
fn a_sealed_segment_with_a_bad_frame_is_written_anew() {
    let mut patient = Patient::new();
    let sealed = seal(&patient);
    patient.env.run(&["history"]).success();
    patient.events = patient.export();
    alter(&sealed[0], |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle..middle + 8].fill(0xff);
    });
    patient.heal("journal-damage", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.undo_and_repair("journal-damage");
    patient.goes_on();
}

#[test]
fn a_sealed_segment_with_a_bad_table_is_written_anew() {
    let mut patient = Patient::new();
    let sealed = seal(&patient);
    patient.env.run(&["history"]).success();
    patient.events = patient.export();
    alter(&sealed[0], |bytes| {
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
    });
    patient.heal("sealed-segment", "error", "rewrite_segment");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_journal_that_is_gone_comes_back_from_the_transcript() {
    let patient = Patient::new();
    fs::remove_dir_all(patient.dir().join("journal")).unwrap();
    let done = patient.heal("session-unreadable", "critical", "rewrite_segment");
    assert!(done["repaired"].is_array(), "{done}");
    let now = patient.export();
    let acknowledged = patient.events.iter().filter(|line| !line.contains("writer.closed"));
    let missing: Vec<_> = acknowledged.filter(|line| !now.contains(line)).collect();
    assert_eq!(missing, [""; 0]);
    patient.goes_on();
}

#[test]
fn a_session_of_which_only_the_index_knows_gets_its_name_back() {
    let patient = Patient::new();
    fs::remove_dir_all(patient.dir().join("journal")).unwrap();
    no_transcript(&patient);
    patient.heal("session-unreadable", "critical", "rewrite_segment");
    let report = patient.doctor(0);
    let missing = &report["awaiting"][0]["missing"]["events"];
    assert_eq!(missing[0][0], 2, "{report}");
    let created: Value = serde_json::from_str(&patient.export()[0]).unwrap();
    let was: Value = serde_json::from_str(&patient.events[0]).unwrap();
    assert_eq!(created["data"]["session"], was["data"]["session"]);
    patient.goes_on();
}

#[test]
fn a_snapshot_of_the_state_that_is_damaged_is_reported_and_made_anew() {
    let patient = Patient::new();
    for slot in ["state/handover.0", "state/handover.1"] {
        let path = patient.dir().join(slot);
        if path.exists() {
            alter(&path, |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        }
    }
    patient.heal("state-snapshot", "warning", "make_anew");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

/// Neither roots nor pages are synced: a power cut may leave the one without the other.
#[test]
fn a_snapshot_of_the_state_without_its_pages_is_no_damage() {
    let patient = Patient::new();
    let mut pages = 0;
    for entry in fs::read_dir(patient.dir().join("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("pages.") {
            alter(&path, |bytes| bytes.fill(0));
            pages += 1;
        }
    }
    assert!(pages > 0);
    patient.heal("state-snapshot", "warning", "make_anew");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_watermark_that_cannot_be_read_is_reported() {
    let patient = Patient::new();
    alter(&patient.dir().join("watermark"), |bytes| bytes.fill(b'?'));
    patient.heal("watermark", "warning", "make_anew");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_transcript_that_was_altered_is_reported_and_made_anew() {
    let patient = Patient::new();
    let path = patient.dir().join("transcript.task");
    let whole = fs::read(&path).unwrap();
    alter(&path, |bytes| {
        let at = bytes.windows(8).position(|part| part == b"question").unwrap();
        bytes[at] = b'Q';
    });
    patient.heal("transcript", "warning", "make_anew");
    patient.keeps_all_but(&[]);
    assert_eq!(fs::read(&path).unwrap().len(), whole.len());
    patient.goes_on();
}

#[test]
fn an_index_that_was_overwritten_is_reported_and_made_anew() {
    let patient = Patient::new();
    alter(&patient.store("index.db"), |bytes| bytes[5000..6000].fill(7));
    patient.heal("index", "warning", "make_anew");
    patient.keeps_all_but(&[]);
    patient.env.run(&["history"]).success();
}

#[test]
fn settings_that_are_broken_are_put_back() {
    let patient = Patient::new();
    let was = fs::read(patient.store("config.toml")).unwrap();
    // The shield keeps a copy of the settings as they were when a session was last made.
    patient.env.run(&["new"]).success();
    fs::write(patient.store("config.toml"), "version = [").unwrap();
    patient.env.run(&["history"]).failure(1);
    patient.heal("settings", "critical", "put_settings");
    assert_eq!(fs::read(patient.store("config.toml")).unwrap(), was);
    let events: Vec<_> = patient.events.clone();
    let now = patient.env.run(&["export", "--format", "jsonl", &session_of(&events[0])]).success();
    assert_eq!(now.stdout().lines().count(), events.len());
}

fn session_of(created: &str) -> String {
    let event: Value = serde_json::from_str(created).unwrap();
    event["data"]["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_store_from_the_future_is_left_alone() {
    let patient = Patient::new();
    let config = patient.store("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("version = 1", "version = 9")).unwrap();
    let report = patient.doctor(1);
    let found = finding(&report, "store-version");
    assert_eq!(
        (&found["severity"], &found["repair"]["automatic"]),
        (&"critical".into(), &false.into())
    );
    let before = patient.truth();
    patient.env.run(&["doctor", "--repair", "--yes"]).failure(1);
    assert_eq!(patient.truth(), before);
}

#[test]
fn an_object_that_is_damaged_is_named_as_lost_and_the_rest_of_its_pack_is_kept() {
    let patient = Patient::new();
    let pack = files(&patient.store("objects"))
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| path.extension().is_some_and(|end| end == "pack"))
        .unwrap();
    // The first block is the large payload's.
    alter(&pack, |bytes| bytes[16 + 44 + 40 + 2] ^= 0x55);
    let report = patient.doctor(1);
    finding(&report, "pack-damage");
    let done = patient.heal("missing-object", "error", "salvage_pack");
    assert!(actions(&done).contains(&"name_lost"), "{done}");
    let report = patient.doctor(0);
    assert_eq!(
        report["awaiting"][0]["missing"]["objects"].as_array().unwrap().len(),
        1,
        "{report}"
    );
    assert!(patient.export().len() > patient.events.len(), "the events are all there");
    patient.env.run(&["checkpoint", "list"]).success();
    fs::write(patient.env.project().join("code.rs"), "changed\n").unwrap();
    patient.env.run(&["rewind", "--to", "1", "--files", "--yes"]).success();
    assert_eq!(fs::read(patient.env.project().join("code.rs")).unwrap(), b"fn main() {}\n");
}

#[test]
fn a_file_of_a_checkpoint_that_is_damaged_is_named_and_stored_again_by_the_next() {
    let patient = Patient::new();
    let mut state = 7_u32;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    let bytes: Vec<u8> = (0..700_000).map(|_| noise()).collect();
    let picture = patient.env.project().join("picture");
    fs::write(&picture, &bytes).unwrap();
    patient.env.run(&["checkpoint", "create"]).success();
    let packs = files(&patient.store("objects")).into_iter().map(|(path, _)| path);
    for pack in packs.filter(|path| path.extension().is_some_and(|end| end == "pack")) {
        alter(&pack, |packed| {
            let at = packed.windows(32).position(|part| part == &bytes[5000..5032]);
            at.into_iter().for_each(|at| packed[at] ^= 1);
        });
    }
    let report = patient.doctor(1);
    let found = finding(&report, "missing-object");
    assert!(found["message"].as_str().unwrap().starts_with("checkpoint 2 needs it"), "{found}");
    finding(&report, "pack-damage");
    let done = patient.env.run(&["doctor", "--repair", "--yes", "--json"]).success();
    let done = done.json_lines().remove(0);
    assert_eq!(patient.rules(&done), ["damaged-checkpoint"], "{done}");
    assert_eq!(patient.rules(&patient.doctor(0)), ["damaged-checkpoint"]);
    patient.env.run(&["checkpoint", "create"]).success();
    assert_eq!(patient.rules(&patient.doctor(0)), [""; 0], "it is stored again");
    fs::remove_file(&picture).unwrap();
    patient.env.run(&["rewind", "--to", "2", "--files", "picture", "--yes"]).success();
    assert!(fs::read(&picture).unwrap() == bytes);
}

#[test]
fn the_broken_end_of_a_pack_is_taken_out() {
    let patient = Patient::new();
    let pack = files(&patient.store("objects"))
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| path.extension().is_some_and(|end| end == "pack"))
        .unwrap();
    alter(&pack, |bytes| bytes.extend_from_slice(b"aBLK and no more"));
    patient.heal("pack-damage", "warning", "salvage_pack");
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn permissions_that_let_others_read_are_set_right() {
    let patient = Patient::new();
    let (dir, file) = (patient.dir(), patient.segments()[0].clone());
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    patient.heal("permissions", "warning", "set_mode");
    assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    patient.keeps_all_but(&[]);
}

#[test]
fn files_that_were_to_take_the_place_of_others_go_to_the_quarantine() {
    let patient = Patient::new();
    for path in [
        patient.dir().join("journal/00000001.jsonl.zst.tmp"),
        patient.store("config.tmp"),
        patient.store("index.db.new"),
    ] {
        fs::write(&path, "half").unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(7200);
        fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    patient.heal("temporary-file", "warning", "remove");
    assert!(!patient.store("config.tmp").exists() && !patient.store("index.db.new").exists());
    patient.keeps_all_but(&[]);
    patient.goes_on();
}

#[test]
fn a_removal_that_was_cut_short_is_finished() {
    let patient = Patient::new();
    let aside = patient.store("removed/2026-11-15T01-20-00-abcdef/journal");
    fs::create_dir_all(&aside).unwrap();
    fs::write(aside.join("00000001.jsonl"), "").unwrap();
    patient.heal("unfinished-removal", "warning", "finish");
    assert!(!aside.exists());
    patient.keeps_all_but(&[]);
}

#[test]
fn a_call_whose_outcome_nobody_knows_gets_a_result_that_says_so() {
    let patient = Patient::new();
    let lines = [
        r#"{"kind":"session.status","data":{"status":"interrupted"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"make"}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"are you there?"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":"it is done"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c2","name":"edit"}}"#,
    ];
    patient.env.record(&["--key", "s"], &lines).success();
    let report = patient.doctor(1);
    finding(&report, "open-call");
    let done = patient.heal("message-order", "error", "end_calls");
    assert_eq!(done["plans"][0]["actions"][0]["calls"], serde_json::json!(["c2", "c1"]), "{done}");
    let recovery = patient.recovery();
    assert_eq!(recovery["unknown"], serde_json::json!(["c2", "c1"]), "{recovery}");
    let export = patient.export();
    let result = |line: &&String| line.contains("tool_result") && line.contains("unknown");
    assert_eq!(export.iter().filter(result).count(), 1);
    patient.keeps_all_but(&[]);
    // Taken back, it is open again.
    patient.env.run(&["undo", "--repair", "--yes"]).success();
    finding(&patient.doctor(1), "message-order");
}

#[test]
fn a_session_that_contradicts_itself_goes_back_to_a_checkpoint_when_asked() {
    let patient = Patient::new();
    let lines = [
        r#"{"kind":"task.created","data":{"task":"A","title":"a"}}"#,
        r#"{"kind":"task.created","data":{"task":"B","title":"b","depends":["A"]}}"#,
        r#"{"kind":"task.changed","data":{"task":"A","depends":["B"]}}"#,
    ];
    patient.env.record(&["--key", "s"], &lines).success();
    let report = patient.doctor(1);
    let found = finding(&report, "dependency-cycle");
    assert_eq!(
        (&found["type"], &found["repair"]["automatic"]),
        (&"business_logic".into(), &false.into())
    );
    patient.env.run(&["doctor", "--repair", "--yes"]).failure(1);
    let done =
        patient.env.run(&["doctor", "--repair", "--strategy", "checkpoint", "--yes", "--json"]);
    let done = done.success().json_lines().remove(0);
    assert_eq!(strategy(&done), "checkpoint");
    assert!(actions(&done).contains(&"go_back"), "{done}");
    assert_eq!(patient.rules(&patient.doctor(0)), [""; 0]);
    patient.keeps_all_but(&[]);
    patient.env.run(&["undo", "--repair", "--yes"]).success();
    finding(&patient.doctor(1), "dependency-cycle");
    let id = session_of(&patient.events[0]);
    let from = patient.env.run(&["doctor", &id, "--repair", "--from", "1", "--yes"]).success();
    assert!(from.stdout().contains("checkpoint (chosen)"), "{from:?}");
    assert_eq!(patient.rules(&patient.doctor(0)), [""; 0]);
}

#[test]
fn a_lost_task_makes_the_default_go_back_to_the_checkpoint() {
    let patient = Patient::new();
    let lines = [
        r#"{"kind":"task.created","data":{"task":"P","title":"parent"}}"#,
        r#"{"kind":"task.created","data":{"task":"P.C","title":"child","parent":"P"}}"#,
        r#"{"kind":"x.end","data":{}}"#,
    ];
    patient.env.record(&["--key", "s"], &lines).success();
    no_transcript(&patient);
    for path in patient.segments() {
        let bytes = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(at) = text.find(r#""task":"P","title""#) {
            alter(&path, |bytes| bytes[at + 9] = b'Q');
        }
    }
    let done = patient.heal("journal-damage", "error", "go_back");
    assert_eq!(strategy(&done), "checkpoint", "{done}");
    patient.goes_on();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let patient = Patient::new();
    for (args, code) in [
        (&["doctor", "--strategy", "partial"][..], 2),
        (&["doctor", "--repair", "--strategy", "magic"], 2),
        (&["doctor", "--repair", "--from", "1"], 2),
        (&["doctor", "--accept"], 2),
        (&["doctor", "--dry-run"], 2),
        (&["doctor", "nosuch", "--repair", "--yes"], 1),
        (&["doctor", "--all", "abc"], 2),
    ] {
        let done = patient.env.run(args).failure(code);
        assert!(!done.stderr.is_empty() && !done.stderr.contains("panicked"), "{args:?} {done:?}");
    }
    let none = patient.env.run(&["doctor", "--repair", "--yes"]).success();
    assert!(none.stderr.contains("There is nothing to repair"), "{none:?}");
    patient.keeps_all_but(&[]);
}

#[test]
fn a_store_under_a_path_that_is_not_utf_8_is_repaired_and_the_repair_undone() {
    let env = TestEnvironment::bare();
    let project = env.project().join(std::ffi::OsStr::from_bytes(b"n\xff\\x41"));
    fs::create_dir(&project).unwrap();
    let abide = |args: &[&str], input: &str| {
        let mut command = env.command(args);
        command.current_dir(&project);
        run(command, input.as_bytes())
    };
    abide(&["init"], "").success();
    let says = |text: &str| format!("{}\n", HELLO.replace("hello", text));
    let lines: String = ["one", "two", "three"].map(says).concat();
    abide(&["record", "--key", "s"], &lines).success();
    let sessions = fs::read_dir(project.join(".abide/sessions")).unwrap();
    let mut sessions = sessions.map(|entry| entry.unwrap().path());
    let session = sessions.find(|path| !path.ends_with(".git")).unwrap();
    let segment = session.join("journal/00000001.jsonl");
    alter(&segment, |bytes| {
        let at = bytes.windows(3).position(|part| part == b"two").unwrap();
        bytes[at] ^= 1;
    });
    let damaged = fs::read(&segment).unwrap();
    let report = abide(&["doctor", "--json"], "").failure(1).json_lines().remove(0);
    let place = finding(&report, "journal-damage")["place"]["path"].as_str().unwrap();
    assert!(place.contains(r"n\xff\\x41/.abide/sessions/"), "{place}");
    for _ in 0..2 {
        abide(&["doctor", "--repair", "--yes"], "").success();
        assert_ne!(fs::read(&segment).unwrap(), damaged);
        let kept = files(&project.join(".abide/quarantine"));
        assert!(kept.iter().any(|(_, bytes)| *bytes == damaged), "the original is kept");
        let undone = abide(&["undo", "--repair", "--yes"], "").success();
        assert!(undone.stdout().contains("journal/00000001.jsonl as it was"), "{undone:?}");
        assert_eq!(fs::read(&segment).unwrap(), damaged, "the original is back");
    }
}

#[test]
fn a_broken_task_tree_is_repaired_by_the_commands_that_are_shown() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"task.created","data":{"task":"part","title":"a part","parent":"it's gone"}}"#,
        r#"{"kind":"task.created","data":{"task":"other","title":"a part","parent":"it's gone"}}"#,
        r#"{"kind":"task.created","data":{"task":"-x","title":"x","depends":["never","--no"]}}"#,
        r#"{"kind":"task.created","data":{"task":"A","title":"a","depends":["C"]}}"#,
        r#"{"kind":"task.created","data":{"task":"B","title":"b","depends":["A","nor"]}}"#,
        r#"{"kind":"task.created","data":{"task":"C","title":"c","depends":["B"]}}"#,
        r#"{"kind":"task.created","data":{"task":"own","title":"o","depends":["own","A"]}}"#,
    ];
    env.record(&[], &lines).success();
    // The latest session is another one.
    env.run(&["new"]).success();
    let report = env.run(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    let findings = report["findings"].as_array().unwrap();
    let commands: Vec<&str> = findings
        .iter()
        .filter_map(|found| found["repair"]["commands"].as_array())
        .flatten()
        .map(|command| command.as_str().unwrap())
        .collect();
    assert_eq!(commands.len(), 5, "{commands:?}");
    let shown = env.run(&["doctor"]).failure(1).stdout().to_owned();
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    for command in &commands {
        assert!(lines.contains(command), "{command}: {shown}");
        assert!(
            command.starts_with("abide tasks ") && command.contains(" --session="),
            "{command}"
        );
        let line = command.replacen("abide", ABIDE, 1);
        let mut shell = env.isolate(Command::new("sh"));
        shell.arg("-c").arg(&line).current_dir(env.project());
        run(shell, b"").success();
    }
    let after = env.run(&["doctor", "--json"]).success().json_lines().remove(0);
    let left: Vec<&Value> =
        after["findings"].as_array().unwrap().iter().map(|found| &found["rule"]).collect();
    assert_eq!(left, [] as [&Value; 0]);
    let tasks = env.run(&["tasks", "--session", &session_id(&report), "--json"]).success();
    let tasks = tasks.json_lines();
    let task = |id: &str| tasks.iter().find(|task| task["task"] == id).unwrap();
    assert_eq!(task("part")["parent"], "it's gone");
    assert_eq!(task("own")["depends"], json!(["A"]));
}

fn session_id(report: &Value) -> String {
    report["findings"][0]["session"].as_str().unwrap().to_owned()
}

/// The commands of all findings.
fn repair_commands(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let commands = findings.filter_map(|found| found["repair"]["commands"].as_array()).flatten();
    commands.map(|command| command.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_commands_for_a_task_tree_fit_together() {
    let env = TestEnvironment::new();
    let many: Vec<String> = (0..120).map(|number| format!("\"gone{number}\"")).collect();
    let many = format!(
        r#"{{"kind":"task.created","data":{{"task":"many","title":"m","depends":[{}]}}}}"#,
        many.join(",")
    );
    let lines = [
        r#"{"kind":"task.created","data":{"task":"P1","title":"phase"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1.M1.T1","title":"part","parent":"P1.M1"}}"#,
        // What the part of another one adds is not taken off.
        r#"{"kind":"task.created","data":{"task":"X","title":"x","depends":["P1.M1"]}}"#,
        // A terminal would show another name.
        r#"{"kind":"task.created","data":{"task":"Y","title":"y","depends":["a\u202eb"]}}"#,
        &many,
    ];
    env.record(&[], &lines).success();
    let report = env.run(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    let commands = repair_commands(&report);
    let about = |what: &str| commands.iter().filter(|line| line.contains(what)).count();
    assert_eq!((about(" --id=P1.M1 --parent=P1 "), about("-- X"), about("-- Y")), (1, 0, 0));
    assert_eq!((about("-- many"), commands.len()), (1, 2), "{commands:?}");
    for command in &commands {
        let mut shell = env.isolate(Command::new("sh"));
        shell.arg("-c").arg(command.replacen("abide", ABIDE, 1)).current_dir(env.project());
        run(shell, b"").success();
    }
    let after = env.run(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    let left = after["findings"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["rule"], "missing-dependency");
    let tasks = env.run(&["tasks", "--json"]).success().json_lines();
    let task = |id: &str| tasks.iter().find(|task| task["task"] == id).unwrap();
    assert_eq!(task("P1.M1")["parent"], "P1");
    assert_eq!(task("X")["depends"], json!(["P1.M1"]));
}

#[test]
fn a_repair_of_a_task_tree_names_the_store_that_was_named() {
    let env = TestEnvironment::new();
    let line = r#"{"kind":"task.created","data":{"task":"A","title":"a","depends":["never"]}}"#;
    env.record(&[], &[line]).success();
    let store = env.store();
    let named = ["doctor", "--repair", "--store", store.to_str().unwrap()];
    let told = env.run_in(&env.path(""), &named).failure(1);
    assert!(told.stderr.contains("run the commands that are shown"), "{told:?}");
    let expected = format!("--store={} --session=", store.display());
    assert!(told.stdout().contains(&expected), "{told:?}");
}

#[test]
fn a_status_that_cannot_follow_is_kept_and_not_applied() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"task.created","data":{"task":"A","title":"a"}}"#,
        r#"{"kind":"task.created","data":{"task":"B","title":"b","depends":["A"]}}"#,
        r#"{"kind":"task.status","data":{"task":"A","status":"complete"}}"#,
        r#"{"kind":"task.status","data":{"task":"A","status":"planned"}}"#,
    ];
    env.record(&[], &lines).success();
    let tasks = env.run(&["tasks", "--json"]).success().json_lines();
    assert_eq!((&tasks[0]["status"], &tasks[1]["ready"]), (&json!("complete"), &json!(true)));
    let events = env.run(&["export"]).success().json_lines();
    let statuses = events.iter().filter(|event| event["kind"] == "task.status");
    assert_eq!(statuses.count(), 2, "the event is there");
    let health = env.run(&["state", "health", "--json"]).success().json_lines().remove(0);
    assert_eq!(health["health"]["last_anomaly"]["anomaly"], "illegal_transition");
    assert!(env.run(&["doctor"]).success().stdout().contains("warning[anomaly]"));
}

#[test]
fn a_section_of_the_settings_that_is_there_twice_is_named_with_its_lines() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let config = env.store().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let first = text.lines().position(|line| line == "[journal]").unwrap() + 1;
    let again = text.lines().count() + 2;
    fs::write(&config, format!("{text}\n[journal] # again\nseal = false\n")).unwrap();
    let told = format!("line {again}: the section [journal] appears twice, first in line {first}");
    let refused = env.run(&["history"]).failure(1);
    assert!(refused.stderr.contains(&told), "{told}: {refused:?}");
    let report = env.run(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    assert_eq!(finding(&report, "settings")["message"], told);
    fs::write(&config, format!("{text}\nnonsense = 1\n")).unwrap();
    let refused = env.run(&["history"]).failure(1);
    assert!(refused.stderr.contains(&format!("line {again}: ")), "{refused:?}");
}
