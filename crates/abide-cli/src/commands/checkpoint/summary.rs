//! `abide checkpoint summary`: summarises the checkpoints of a session.

use std::time::Duration;

use abide::{
    SessionRef,
    checkpoint::{CheckpointEntry, CheckpointSummary, FileChanges, summarize},
    maintenance::ByteSize,
};
use abide_transcript::{escape, format_duration};

use super::list::git_text;
use crate::checkpoint_lookup::changes_text;
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::session_args::{SessionArg, SessionPurpose};

/// Summarize the checkpoints of a session: number, time span, changed files
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointSummaryArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct CheckpointSummaryJson<'a> {
    total: u64,
    duration_ms: u64,
    duration: String,
    files: &'a [String],
    peak_rss_bytes: u64,
    checkpoints: Vec<SummarizedCheckpoint<'a>>,
}

#[derive(serde::Serialize)]
struct SummarizedCheckpoint<'a> {
    number: u64,
    at: abide::Timestamp,
    duration_ms: u64,
    label: Option<&'a str>,
    files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<FileChanges>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace_files: Option<u64>,
    branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a str>,
    rss_bytes: Option<u64>,
}

impl CheckpointSummaryArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::FilesNear, &opened, surroundings)?;
        let entries = opened.store.view(&SessionRef::Id(id))?.checkpoints()?;
        let summary = summarize(&entries);
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&json(&summary, &entries))?;
        } else {
            lines(&mut out, &summary, &entries)?;
        }
        out.flush()
    }
}

fn brief(entry: &CheckpointEntry) -> SummarizedCheckpoint<'_> {
    let checkpoint = &entry.checkpoint;
    SummarizedCheckpoint {
        number: entry.number,
        at: entry.at,
        duration_ms: checkpoint.duration_ms,
        label: checkpoint.label.as_deref(),
        files: checkpoint.files.len(),
        changes: checkpoint.changes,
        workspace_files: checkpoint.workspace.as_ref().map(|counts| counts.files),
        branch: checkpoint.git.as_ref().and_then(|git| git.branch.as_deref()),
        commit: checkpoint.git.as_ref().and_then(|git| git.head.as_deref()),
        rss_bytes: checkpoint.resources.as_ref().map(|sample| sample.rss_bytes),
    }
}

fn json(summary: &CheckpointSummary, entries: &[CheckpointEntry]) -> String {
    let wire = CheckpointSummaryJson {
        total: summary.total,
        duration_ms: u64::try_from(summary.duration.as_millis()).unwrap_or(u64::MAX),
        duration: format_duration(summary.duration),
        files: &summary.files,
        peak_rss_bytes: summary.peak_rss_bytes,
        checkpoints: entries.iter().map(brief).collect(),
    };
    serde_json::to_string(&wire).unwrap_or_default()
}

fn lines(
    out: &mut CommandOutput,
    summary: &CheckpointSummary,
    entries: &[CheckpointEntry],
) -> Result<(), CommandError> {
    out.line(format_args!("Checkpoints:     {}", summary.total))?;
    out.line(format_args!("Duration:        {}", format_duration(summary.duration)))?;
    if summary.peak_rss_bytes > 0 {
        out.line(format_args!("Peak memory:     {}", ByteSize(summary.peak_rss_bytes)))?;
    }
    out.line(format_args!("Files changed:   {}", summary.files.len()))?;
    for file in &summary.files {
        out.line(format_args!("  {}", escape::text(file)))?;
    }
    for entry in entries {
        let brief = brief(entry);
        let after = format_duration(Duration::from_millis(brief.duration_ms));
        let files = noun_count(brief.files, "file");
        let mut words = vec![match &brief.changes {
            Some(changes) => format!("{files} changed ({})", changes_text(changes)),
            None => format!("{files} changed"),
        }];
        let git = git_text(entry.checkpoint.git.as_ref());
        words.extend((!git.is_empty()).then(|| format!("on {}", escape::text(&git))));
        words.extend(brief.rss_bytes.map(|bytes| ByteSize(bytes).to_string()));
        words.extend(brief.label.map(|label| escape::text(label).into_owned()));
        out.line(format_args!("  #{} after {after}: {}", brief.number, words.join(", ")))?;
    }
    Ok(())
}
