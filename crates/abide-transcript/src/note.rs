//! One-line notes for events that are neither messages nor tool calls.

use abide_model::{Event, Fact, SessionCreated, SessionStatus, Usage};

use crate::session_overview::forked_from;
use crate::short;
use crate::tidy::tidy_text;
use crate::timeline_entry::NoteWeight;

/// The label, text and weight of an event's note.
pub(crate) fn event_note(event: &Event, fact: Option<Fact>) -> (String, String, NoteWeight) {
    let (label, text, weight) = match fact {
        Some(Fact::SessionCreated(SessionCreated { fields, .. }))
            if fields.forked_from(event.seq).is_some() =>
        {
            let from = fields.parent.as_ref().map(forked_from).unwrap_or_default();
            ("Forked", from, NoteWeight::Normal)
        }
        Some(Fact::SessionCreated(created)) => {
            ("Session created", created.fields.title.unwrap_or_default(), NoteWeight::Minor)
        }
        Some(Fact::WriterOpened(writer)) => ("Writer opened", writer.by, NoteWeight::Minor),
        Some(Fact::WriterClosed) => ("Writer closed", String::new(), NoteWeight::Minor),
        // The conversation stays, and the event just before is the safety checkpoint.
        Some(Fact::Rewind(rewind)) if rewind.files && rewind.to.next() == event.seq => {
            let paths = match rewind.paths.as_slice() {
                [] => "all".to_owned(),
                paths => paths.join(", "),
            };
            ("Files put back", paths, NoteWeight::Normal)
        }
        Some(Fact::Rewind(rewind)) => {
            let files = if rewind.files { ", files too" } else { "" };
            ("Rewound", format!("to event {}{files}", rewind.to), NoteWeight::Normal)
        }
        Some(Fact::ApiCall(call)) => {
            ("Model called", call.model.unwrap_or_default(), NoteWeight::Minor)
        }
        Some(Fact::ApiResult(result)) => match result.error {
            Some(error) => ("Model failed", error, NoteWeight::Normal),
            None => {
                let used = result.usage.as_ref().map(usage_note).unwrap_or_default();
                ("Model answered", used, NoteWeight::Minor)
            }
        },
        Some(Fact::Artifact(artifact)) => {
            let ok = if artifact.ok { "ok" } else { "failed" };
            let counts = artifact.counts.map(|counts| format!(", {counts}")).unwrap_or_default();
            let text = format!("{} {}: {ok}{counts}", artifact.kind, artifact.name);
            ("Artifact", text, NoteWeight::Normal)
        }
        Some(Fact::PermissionAsked(asked)) => ("Permission asked", asked.title, NoteWeight::Normal),
        Some(Fact::PermissionAnswered(answered)) => {
            ("Permission", answered.word().to_owned(), NoteWeight::Normal)
        }
        Some(Fact::Checkpoint(checkpoint)) => {
            let number = checkpoint.number.map(|number| format!(" {number}")).unwrap_or_default();
            let words = [checkpoint.label, Some(checkpoint.trigger)];
            let words: Vec<_> =
                words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
            return (format!("Checkpoint{number}"), words.join(", "), NoteWeight::Normal);
        }
        Some(Fact::Thinning(thinning)) => {
            let numbers: Vec<_> = thinning.checkpoints.iter().map(u64::to_string).collect();
            ("Checkpoints thinned", numbers.join(", "), NoteWeight::Normal)
        }
        Some(Fact::FilesRestored(restored)) => {
            let (created, changed) = (restored.created, restored.changed);
            let done = format!(
                "by the rewind at event {}: {created} created, {changed} changed, {} deleted",
                restored.rewind, restored.deleted
            );
            let failed = restored.failed.iter().map(|(path, why)| format!("not {path}: {why}"));
            let lines: Vec<_> = std::iter::once(done).chain(failed).collect();
            ("Files restored", lines.join("\n"), NoteWeight::Normal)
        }
        Some(Fact::Compaction(compaction)) => {
            let (first, last) = (compaction.first, compaction.last);
            let text = format!("events {first} to {last}\n{}", compaction.summary);
            ("Context compacted", text, NoteWeight::Normal)
        }
        Some(Fact::ContextRestored(restored)) => (
            "Context restored",
            format!("as before event {}", restored.compaction),
            NoteWeight::Normal,
        ),
        Some(Fact::Usage(record)) => ("Used", usage_note(&record.usage), NoteWeight::Minor),
        Some(Fact::Limit(limit)) => {
            let left = limit.remaining.map(|left| format!(": {left} left")).unwrap_or_default();
            ("Limit", format!("{}{left}", limit.name), NoteWeight::Minor)
        }
        Some(Fact::Model(model)) => ("Model", model.model, NoteWeight::Normal),
        Some(Fact::RunStarted(run)) => ("Run started", run.command.join(" "), NoteWeight::Minor),
        Some(Fact::RunFinished(run)) => {
            let reason = run.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let weight = match run.status {
                SessionStatus::Completed => NoteWeight::Minor,
                _ => NoteWeight::Normal,
            };
            ("Run ended", format!("{}{reason}", run.status.as_str()), weight)
        }
        Some(Fact::SessionStatus(change)) => {
            ("Session", change.status.as_str().to_owned(), NoteWeight::Minor)
        }
        Some(Fact::SessionUpdated(_)) => ("Session updated", data(event), NoteWeight::Minor),
        Some(Fact::AgentObserved(seen)) => {
            let session = seen.session.map(|session| format!("session {session}"));
            let words = [seen.agent, seen.model, session];
            ("Agent", words.into_iter().flatten().collect::<Vec<_>>().join(", "), NoteWeight::Minor)
        }
        Some(Fact::Git(git)) => {
            let words = [git.branch, git.head, git.error];
            ("Git", words.into_iter().flatten().collect::<Vec<_>>().join(" "), NoteWeight::Minor)
        }
        Some(Fact::Resources(sample)) => {
            let text = format!(
                "{}, {} MB",
                short::short_count(sample.processes, "process"),
                sample.rss_bytes >> 20
            );
            ("Resources", text.replace("processs", "processes"), NoteWeight::Minor)
        }
        Some(Fact::Dependencies(found)) => {
            let count = u64::try_from(found.packages.len()).unwrap_or(u64::MAX);
            (
                "Dependencies",
                format!("{} by {}", short::short_count(count, "package"), found.manager),
                NoteWeight::Minor,
            )
        }
        Some(Fact::Log(log)) => {
            let weight = if matches!(log.level.as_str(), "trace" | "debug") {
                NoteWeight::Minor
            } else {
                NoteWeight::Normal
            };
            return (format!("Log {}", log.level).trim_end().to_owned(), log.text, weight);
        }
        Some(Fact::PlanRecorded(plan)) => {
            let title = plan.title.map(|title| format!(": {title}")).unwrap_or_default();
            ("Plan", format!("{}{title}", plan.form), NoteWeight::Normal)
        }
        Some(Fact::Recovery(recovery)) => {
            let lost = recovery
                .lost
                .iter()
                .map(|(first, last)| format!("events {first} to {last} are lost"));
            let cut = (recovery.cut_bytes > 0).then(|| {
                format!(
                    "torn write of {} cut off (never acknowledged)",
                    short::short_count(recovery.cut_bytes, "byte")
                )
            });
            let words: Vec<_> = lost.chain(cut).chain(recovery.note).collect();
            ("Recovery", words.join("; "), NoteWeight::Normal)
        }
        Some(Fact::Erasure(erasure)) => {
            let why = erasure.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let what = if erasure.files { "files" } else { "data" };
            ("Erased", format!("the {what} of event {}{why}", erasure.seq), NoteWeight::Normal)
        }
        Some(Fact::SourceRecord(record)) => {
            let words = [record.sort, Some(record.file)];
            let words: Vec<_> = words.into_iter().flatten().collect();
            ("Source", words.join(", "), NoteWeight::Minor)
        }
        Some(Fact::SourceProgress(read)) => {
            let end = short::short_thousands(read.end);
            ("Source read", format!("{} to {end}", read.file), NoteWeight::Minor)
        }
        Some(Fact::Erased) => {
            return (event.kind.to_string(), "(erased)".to_owned(), NoteWeight::Normal);
        }
        _ => {
            // The messages of a protocol beside the conversation.
            let protocol = event.kind.as_str().starts_with("acp.");
            let weight = if protocol { NoteWeight::Minor } else { NoteWeight::Normal };
            return (event.kind.to_string(), data(event), weight);
        }
    };
    (label.to_owned(), text, weight)
}

/// The data of an event as names and values.
fn data(event: &Event) -> String {
    event.data.as_ref().map_or_else(String::new, |data| tidy_text(data.as_str()))
}

/// `1,200 tokens in, 34 out, $0.12`.
pub(crate) fn usage_note(usage: &Usage) -> String {
    let (sent, got) =
        (short::short_thousands(usage.input_tokens), short::short_thousands(usage.output_tokens));
    let mut text = format!("{sent} tokens in, {got} out");
    if usage.cost_micros > 0 {
        text.push_str(&format!(
            ", ${}.{:02}",
            usage.cost_micros / 1_000_000,
            usage.cost_micros / 10_000 % 100
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, Seq, Timestamp};

    use super::*;

    #[test]
    fn permissions_are_told_in_words() {
        let told = |json: &str| {
            let event = NewEvent::parse(json).unwrap();
            let event = event.into_event(Seq(1), Timestamp::from_millis(0));
            let (label, text, _) = event_note(&event, event.fact().ok());
            format!("{label}: {text}")
        };
        assert_eq!(
            told(r#"{"kind":"permission.asked","data":{"call":"c","title":"Edit main.rs"}}"#),
            "Permission asked: Edit main.rs"
        );
        assert_eq!(
            told(
                r#"{"kind":"permission.answered","data":{"outcome":"selected","kind":"allow_once"}}"#
            ),
            "Permission: allow_once"
        );
    }
}
