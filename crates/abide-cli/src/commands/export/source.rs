//! Exports the files that an imported session was made from.

use std::fs;
use std::path::{Component, Path, PathBuf};

use abide::SessionView;
use abide_import::{SourceFile, source_files, write_source_file};
use abide_transcript::escape;

use crate::command_output::status;
use crate::error::{CommandError, at};
use crate::export_target::ExportTarget;
use crate::noun_count::noun_count;

/// Writes the files of a session: the only one to the output, or several into a new directory.
pub(super) fn export_source(
    view: &SessionView,
    output: Option<PathBuf>,
) -> Result<(), CommandError> {
    let files = source_files(view)?;
    let written = |file: &SourceFile, to: &mut ExportTarget, place: &Path| {
        write_source_file(view, file, to, place).map_err(CommandError::because)
    };
    match (files.as_slice(), output) {
        ([], _) => Err(CommandError::failed("the session was not imported from an agent's files")
            .with_hint("`abide export` without `--format source` writes its events")),
        ([file], output) if !output.as_ref().is_some_and(|path| path.is_dir()) => {
            let place = output.clone().unwrap_or_default();
            let mut target = ExportTarget::of(output)?;
            written(file, &mut target, &place)?;
            target.finish()
        }
        (many, None) => {
            let names: Vec<&str> = many.iter().map(|file| file.name.as_str()).collect();
            Err(CommandError::failed(format!(
                "the session was made from {}: {}",
                noun_count(many.len(), "file"),
                escape::text(&names.join(", "))
            ))
            .with_hint("`-o DIR` writes them into a directory"))
        }
        (many, Some(dir)) => {
            for file in many {
                let path = dir.join(safe_name(&file.name));
                let above = path.parent().unwrap_or(&dir);
                fs::create_dir_all(above).map_err(at("make", above))?;
                let mut target = ExportTarget::of(Some(path.clone()))?;
                written(file, &mut target, &path)?;
                target.finish()?;
            }
            let shown = dir.to_string_lossy();
            let count = noun_count(many.len(), "file");
            status(format_args!("Wrote {count} into {}", escape::text(&shown)));
            Ok(())
        }
    }
}

/// A recorded name as a path that stays within the directory.
fn safe_name(name: &str) -> PathBuf {
    let path = Path::new(name);
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let safe: PathBuf = parts.collect();
    if safe.as_os_str().is_empty() { PathBuf::from("unnamed") } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_name_leads_nowhere_else() {
        for (name, safe) in [
            ("session.jsonl", "session.jsonl"),
            ("subagents/a.jsonl", "subagents/a.jsonl"),
            ("../../etc/passwd", "etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("..", "unnamed"),
        ] {
            assert_eq!(safe_name(name), PathBuf::from(safe));
        }
    }
}
