//! Every part of a state in a line.

use abide::{
    maintenance::ByteSize,
    state::{
        ArtifactEntry, ArtifactsReport, CallsReport, DependenciesReport, FilesReport, GitReport,
        HealthReport, ResourcesReport, StatePart, StateReport, TasksReport, Usage, UsageReport,
    },
};
use abide_transcript::escape;

use crate::noun_count::noun_count;
use crate::typed_time::time_ago;

/// A line for each part of the report.
pub(super) fn lines(report: &StateReport) -> Vec<String> {
    let line = |part: StatePart, text: Option<String>| {
        text.map(|text| format!("{:<13} {text}", title(part)))
    };
    let parts = [
        line(StatePart::Tasks, report.tasks.as_ref().map(tasks)),
        line(StatePart::Calls, report.calls.as_ref().map(calls)),
        line(StatePart::Files, report.files.as_ref().map(files)),
        line(StatePart::Usage, report.usage.as_ref().map(usage)),
        line(StatePart::Artifacts, report.artifacts.as_ref().map(artifacts)),
        line(StatePart::Dependencies, report.dependencies.as_ref().map(dependencies)),
        line(StatePart::Git, report.git.as_ref().map(git)),
        line(StatePart::Resources, report.resources.as_ref().map(resources)),
        line(StatePart::Health, report.health.as_ref().map(health)),
    ];
    parts.into_iter().flatten().collect()
}

fn title(part: StatePart) -> String {
    let name = part.as_str();
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Counts that are not zero, in words; `none` without any.
pub(super) fn counted<const N: usize>(counts: [(u64, &str); N]) -> String {
    let words: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

pub(super) fn tasks(tasks: &TasksReport) -> String {
    let progress = &tasks.progress;
    if progress.all == 0 {
        return "none".to_owned();
    }
    let mut text = format!("{} of {} done", progress.done(), progress.all);
    let rest = [
        (progress.failed, "failed"),
        (progress.blocked, "blocked"),
        (progress.active, "active"),
        (progress.ready, "ready"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

pub(super) fn calls(calls: &CallsReport) -> String {
    counted([
        (calls.counts.tools, if calls.counts.tools == 1 { "tool call" } else { "tool calls" }),
        (calls.counts.failed, "failed"),
        (calls.open.len() as u64, "without a result"),
        (calls.counts.requests, if calls.counts.requests == 1 { "request" } else { "requests" }),
        (
            calls.counts.errors,
            if calls.counts.errors == 1 { "request failed" } else { "requests failed" },
        ),
    ])
}

pub(super) fn files(files: &FilesReport) -> String {
    let done = |op: &str| {
        files.counts.iter().find(|(one, _)| one.as_str() == op).map_or(0, |(_, count)| *count)
    };
    let known = match files.list.len() {
        0 => return "none".to_owned(),
        count => noun_count(count, "file"),
    };
    let operations =
        [("write", "write"), ("delete", "deletion"), ("rename", "rename"), ("read", "read")];
    let operations: Vec<String> = operations
        .into_iter()
        .map(|(op, noun)| (done(op), noun))
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| noun_count(count, noun))
        .collect();
    let operations = if operations.is_empty() { "none".to_owned() } else { operations.join(", ") };
    format!("{known}: {operations}")
}

pub(super) fn usage(usage: &UsageReport) -> String {
    let model = usage.model.as_deref().or(usage.models.keys().next().map(String::as_str));
    let model = model.map(|model| format!(" ({})", escape::text(model))).unwrap_or_default();
    format!("{}{model}", used(&usage.total))
}

pub(super) fn used(usage: &Usage) -> String {
    if *usage == Usage::default() {
        return "none".to_owned();
    }
    let mut text = format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens);
    let more = [
        (usage.cache_read_tokens, "from the cache"),
        (usage.cache_write_tokens, "to the cache"),
        (usage.reasoning_tokens, "for reasoning"),
    ];
    for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    if usage.cost_micros > 0 {
        let cents = usage.cost_micros / 100 % 10_000;
        text.push_str(&format!(", ${}.{cents:04}", usage.cost_micros / 1_000_000));
    }
    text
}

fn artifacts(artifacts: &ArtifactsReport) -> String {
    match artifacts.list.as_slice() {
        [] => "none".to_owned(),
        [first] => artifact(first),
        [first, rest @ ..] => format!("{}; {} more", artifact(first), rest.len()),
    }
}

/// An artifact in a line.
pub(super) fn artifact(entry: &ArtifactEntry) -> String {
    let artifact = &entry.artifact;
    let kind = if artifact.kind.is_empty() { "artifact" } else { &artifact.kind };
    let how = if artifact.ok { "ok" } else { "failed" };
    let counts = artifact.counts.as_ref().map(|counts| format!(", {counts}")).unwrap_or_default();
    let when = time_ago(entry.at, jiff::Timestamp::now());
    format!("{} {}: {how}{counts}, {when}", escape::text(kind), escape::text(&artifact.name))
}

fn dependencies(dependencies: &DependenciesReport) -> String {
    let words: Vec<String> = dependencies
        .list
        .iter()
        .map(|entry| {
            let lock = entry.resolved.lockfile.as_deref().unwrap_or(&entry.resolved.manager);
            let packages = noun_count(entry.resolved.packages.len(), "package");
            format!("{packages} in {}", escape::text(lock))
        })
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

pub(super) fn git(git: &GitReport) -> String {
    if git.seq.is_none() {
        return "not observed".to_owned();
    }
    let git = &git.git;
    if let Some(error) = &git.error {
        return escape::text(error).into_owned();
    }
    let branch = git.branch.as_deref().unwrap_or("detached");
    let head = git.head.as_deref().map_or("no commit yet", |head| head.get(..12).unwrap_or(head));
    let changes = counted([
        (git.staged.len() as u64, "staged"),
        (git.modified.len() as u64, "modified"),
        (git.untracked.len() as u64, "untracked"),
        (git.renamed.len() as u64, "renamed"),
    ]);
    let changes = if changes == "none" { "clean".to_owned() } else { changes };
    format!("{} at {}: {changes}", escape::text(branch), escape::text(head))
}

pub(super) fn resources(resources: &ResourcesReport) -> String {
    if resources.seq.is_none() && resources.peak_rss_bytes == 0 {
        return "not sampled".to_owned();
    }
    let sample = &resources.sample;
    let processes = if sample.processes == 1 { "process" } else { "processes" };
    format!(
        "{} {processes}, {} of memory, {} at most",
        sample.processes,
        ByteSize(sample.rss_bytes),
        ByteSize(resources.peak_rss_bytes)
    )
}

pub(super) fn health(health: &HealthReport) -> String {
    let mut words = vec![health.status.as_str().to_owned()];
    let counts = [
        (health.anomalies, "anomalies"),
        (health.recoveries.len() as u64, "recoveries"),
        (health.rewinds, "rewinds"),
        (health.erased, "erased payloads"),
        (health.logs.get("error").copied().unwrap_or(0), "logged errors"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        words.push(format!("{count} {what}"));
    }
    if health.requires_validation {
        words.push("needs review (`abide doctor`)".to_owned());
    }
    if health.restoring.is_some() {
        words.push("a rewind is unfinished".to_owned());
    }
    words.join(", ")
}
