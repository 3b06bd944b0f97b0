//! A part of a state as a list for people.

use abide::{
    Timestamp,
    state::{StatePart, StateReport, Usage},
};
use abide_transcript::escape;
use jiff::tz::TimeZone;

use super::overview;
use crate::clock::clock_day_and_time;
use crate::noun_count::noun_count;
use crate::task_mark::task_mark;

/// All of a part.
pub(super) fn lines(report: &StateReport, part: StatePart) -> Vec<String> {
    match part {
        StatePart::Tasks => tasks(report),
        StatePart::Calls => calls(report),
        StatePart::Files => files(report),
        StatePart::Usage => usage(report),
        StatePart::Artifacts => artifacts(report),
        StatePart::Dependencies => dependencies(report),
        StatePart::Git => git(report),
        StatePart::Resources => report.resources.iter().map(overview::resources).collect(),
        StatePart::Health => health(report),
    }
}

fn time(at: Option<Timestamp>) -> String {
    at.map(|at| clock_day_and_time(&TimeZone::system(), at)).unwrap_or_default()
}

fn tasks(report: &StateReport) -> Vec<String> {
    let Some(tasks) = &report.tasks else { return Vec::new() };
    let list = tasks.list.iter().map(|task| {
        let mut notes = vec![task.status.as_str().to_owned()];
        notes.extend(task.ready.then(|| "ready".to_owned()));
        notes.extend((task.attempts > 1).then(|| format!("attempt {}", task.attempts)));
        notes.extend(
            (task.failures > 0).then(|| format!("failed {}", noun_count(task.failures, "time"))),
        );
        if !task.waits_for.is_empty() {
            let names: Vec<&str> = task.waits_for.iter().map(|id| id.as_str()).collect();
            notes.push(format!("after {}", names.join(", ")));
        }
        format!(
            "{}{} {} {} ({})",
            "  ".repeat(task.depth.min(24)),
            task_mark(task.status),
            escape::text(task.task.as_str()),
            escape::text(&task.title),
            escape::text(&notes.join(", "))
        )
    });
    list.chain([overview::tasks(tasks)]).collect()
}

fn calls(report: &StateReport) -> Vec<String> {
    let Some(calls) = &report.calls else { return Vec::new() };
    let mut lines = vec![overview::calls(calls)];
    for (name, counts) in &calls.tools {
        let open = counts.calls.saturating_sub(counts.finished);
        let counts = overview::counted([
            (counts.calls, if counts.calls == 1 { "call" } else { "calls" }),
            (counts.failed, "failed"),
            (open, "without a result"),
        ]);
        lines.push(format!("  {}: {counts}", escape::text(name)));
    }
    if !calls.open.is_empty() {
        lines.push("Without a result:".to_owned());
    }
    for call in &calls.open {
        let task = call.task.as_ref().map(|task| format!(", task {}", task.as_str()));
        let about = format!("{} {}{}", call.name, call.call, task.unwrap_or_default());
        lines.push(format!("  @{} {} {}", call.seq, time(call.at), escape::text(&about)));
    }
    lines
}

fn files(report: &StateReport) -> Vec<String> {
    let Some(files) = &report.files else { return Vec::new() };
    let list = files.list.iter().map(|file| {
        let path = escape::text(&file.path);
        format!("{:<6} {} {path}", file.op.as_str(), time(file.at))
    });
    list.chain([overview::files(files)]).collect()
}

fn usage(report: &StateReport) -> Vec<String> {
    let Some(usage) = &report.usage else { return Vec::new() };
    let mut lines = vec![format!("In all: {}", overview::used(&usage.total))];
    let mut by = |what: &str, name: &str, usage: &Usage| {
        lines.push(format!("{what} {}: {}", escape::text(name), overview::used(usage)));
    };
    usage.models.iter().for_each(|(name, usage)| by("Model", name, usage));
    for (name, usage) in &usage.lanes {
        by("Lane", if name.is_empty() { "main" } else { name }, usage);
    }
    if let Some(model) = &usage.model {
        let window = usage.window.map(|window| format!(", a window of {window} tokens"));
        let window = window.unwrap_or_default();
        lines.push(format!("Configured: {}{window}", escape::text(model)));
    }
    for limit in usage.limits.values() {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |n| n.to_string());
        let resets = limit.resets.map(|at| format!(", resets at {}", time(Some(at))));
        lines.push(format!(
            "Limit {}: {} of {} left{}",
            escape::text(&limit.name),
            number(limit.remaining),
            number(limit.limit),
            resets.unwrap_or_default()
        ));
    }
    lines
}

fn artifacts(report: &StateReport) -> Vec<String> {
    let Some(artifacts) = &report.artifacts else { return Vec::new() };
    if artifacts.list.is_empty() {
        return vec!["none".to_owned()];
    }
    let line = |entry| overview::artifact(entry);
    artifacts.list.iter().map(line).collect()
}

fn dependencies(report: &StateReport) -> Vec<String> {
    let Some(dependencies) = &report.dependencies else { return Vec::new() };
    if dependencies.list.is_empty() {
        return vec!["none".to_owned()];
    }
    let mut lines = Vec::new();
    for entry in &dependencies.list {
        let resolved = &entry.resolved;
        let lock = resolved.lockfile.as_deref().map(|lock| format!(" ({lock})"));
        let name = format!("{}{}", resolved.manager, lock.unwrap_or_default());
        let count = resolved.packages.len();
        let count = noun_count(count, "package");
        lines.push(format!("{}: {count}, {}", escape::text(&name), time(Some(entry.at))));
        if let Some(note) = &resolved.note {
            lines.push(format!("  not read: {}", escape::text(note)));
        }
        for (package, version) in &resolved.packages {
            lines.push(format!("  {} {}", escape::text(package), escape::text(version)));
        }
        if resolved.left_out > 0 {
            lines.push(format!("  and {} more", resolved.left_out));
        }
    }
    lines
}

fn git(report: &StateReport) -> Vec<String> {
    let Some(observed) = &report.git else { return Vec::new() };
    let mut lines = vec![overview::git(observed)];
    if let Some(seq) = observed.seq {
        lines.push(format!("Observed: @{seq} {}", time(observed.at)));
    }
    let git = &observed.git;
    for (what, paths) in
        [("staged", &git.staged), ("modified", &git.modified), ("untracked", &git.untracked)]
    {
        lines.extend(paths.iter().map(|path| format!("  {what:<9} {}", escape::text(path))));
    }
    let renamed = git.renamed.iter();
    lines
        .extend(renamed.map(|(from, to)| {
            format!("  renamed   {} → {}", escape::text(from), escape::text(to))
        }));
    lines
}

fn health(report: &StateReport) -> Vec<String> {
    let Some(health) = &report.health else { return Vec::new() };
    let mut lines = vec![overview::health(health)];
    if let Some(last) = health.last_anomaly {
        lines.push(format!("Last anomaly: @{} {}", last.seq, last.anomaly.as_str()));
    }
    for entry in &health.recoveries {
        let recovery = &entry.recovery;
        let lost: u64 = recovery.lost.iter().fold(0, |sum: u64, (first, last)| {
            sum.saturating_add(last.0.saturating_sub(first.0)).saturating_add(1)
        });
        let note = recovery.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        let about = overview::counted([
            (recovery.cut_bytes, "bytes of a torn write"),
            (lost, "events lost"),
            (recovery.unknown.len() as u64, "calls of unknown outcome"),
        ]);
        let about = format!("{} ({about}){note}", recovery.strategy);
        lines.push(format!(
            "Recovery: @{} {} {}",
            entry.seq,
            time(Some(entry.at)),
            escape::text(&about)
        ));
    }
    if let Some(seq) = health.restoring {
        lines.push(format!("Unfinished rewind: @{seq}; opening the session finishes it"));
    }
    if let Some(error) = &health.last_error {
        let text = escape::text(&error.text);
        lines.push(format!("Last error: @{} {} {text}", error.seq, time(Some(error.at))));
    }
    lines
}
