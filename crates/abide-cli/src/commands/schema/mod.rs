//! `abide schema`: the kinds of events and their fields, for people or as a JSON Schema.

mod json_schema;

use std::fmt::Write as _;

use abide::Kind;
use abide::event::schema::{
    FieldDescription, FieldPresence, KIND_DESCRIPTIONS, KindDescription, KindWriter,
    RecordDescription,
};
use abide::locate::near_names;
use abide_transcript::escape;

use self::json_schema::event_schema;
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::{CommandError, FailureCode};
use crate::pager::PagedOutput;

/// Print the kinds of events with their fields
///
/// An event is a line of JSON: {"kind":…,"data":{…}}. The fields of `data` depend on the kind; this
/// command prints them, and who may write the kind. With --json, it prints a JSON Schema (draft
/// 2020-12) of such a line, with an entry in `$defs` for each kind.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide schema                   every kind
  abide schema message.added     one kind
  abide schema --json > abide-events.schema.json")]
pub(crate) struct SchemaArgs {
    /// One kind, such as message.added [default: all]
    kind: Option<String>,
    /// Print a JSON Schema
    #[arg(long)]
    json: bool,
}

impl SchemaArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let kinds = match &self.kind {
            None => KIND_DESCRIPTIONS.iter().collect(),
            Some(kind) => vec![KindDescription::of(kind).ok_or_else(|| unknown_kind(kind))?],
        };
        if self.json {
            let schema = event_schema(&kinds);
            let mut out = CommandOutput::stdout();
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
            text.lines().try_for_each(|line| out.line(line))?;
            return out.flush();
        }
        let mut out = PagedOutput::start(surroundings.pager.as_deref());
        out.write(&schema_text(&kinds))?;
        out.finish()
    }
}

fn unknown_kind(kind: &str) -> CommandError {
    let shown = escape::text(kind);
    if kind.starts_with("x.") && Kind::new(kind).is_some() {
        let text = format!("\"{shown}\" is a kind of your own: its data can be any object");
        return CommandError::failed(text).with_hint("`abide schema` prints the kinds of abide");
    }
    let begin: Vec<_> = KIND_DESCRIPTIONS
        .iter()
        .map(|described| described.kind)
        .filter(|known| known.starts_with(kind) && !kind.is_empty())
        .collect();
    let near = near_names(kind, Kind::VOCABULARY.iter().copied());
    let hint = match near.first() {
        _ if !begin.is_empty() => format!("kinds that begin with it: {}", begin.join(", ")),
        Some(near) => format!("did you mean {near}? `abide schema` prints all"),
        None => "`abide schema` prints all; kinds of your own begin with `x.`".to_owned(),
    };
    CommandError::failed(format!("there is no kind of event \"{shown}\""))
        .coded(FailureCode::NotFound)
        .with_hint(hint)
}

/// The kinds as text, with the objects in their data behind them.
fn schema_text(kinds: &[&KindDescription]) -> String {
    let mut text = String::new();
    let mut records: Vec<&RecordDescription> = Vec::new();
    for kind in kinds {
        let _ = writeln!(text, "{}\n  {}", kind.kind, kind.meaning);
        if kind.writer != KindWriter::Anyone {
            let _ = writeln!(text, "  Written by {}.", kind.writer.as_str());
        }
        let fields: Vec<_> = kind.read_fields().collect();
        write_fields(&mut text, &fields);
        text.push('\n');
        for record in kind.records() {
            if !records.iter().any(|other| other.name == record.name) {
                records.push(record);
            }
        }
    }
    for record in records {
        let _ = writeln!(text, "{} (an object)\n  {}", record.name, record.meaning);
        write_fields(&mut text, &record.fields.iter().collect::<Vec<_>>());
        text.push('\n');
    }
    text.pop();
    text
}

fn write_fields(text: &mut String, fields: &[&FieldDescription]) {
    let width = fields.iter().map(|field| field.name.len()).max().unwrap_or_default();
    for field in fields {
        let required = match field.presence {
            FieldPresence::Required => ", required".to_owned(),
            FieldPresence::Unless(other) => format!(", required unless {other} is there"),
            FieldPresence::Optional | FieldPresence::Defaulted => String::new(),
        };
        let words = field.value.in_words();
        let _ = writeln!(text, "    {:width$}  {words}{required}", field.name);
        let _ = writeln!(text, "    {:width$}    {}", "", field.meaning);
    }
}
