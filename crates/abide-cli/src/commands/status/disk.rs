//! Disk usage of a store.

use abide::{
    SessionFields, SessionId, SessionRef,
    locate::SessionScope,
    maintenance::{ByteSize, DiskUse, ProjectUse},
};
use abide_transcript::escape;

use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::project_name::project_name;
use crate::scoped_store::ScopedStore;

/// How many sessions are named; the others are totalled.
const NAMED: usize = 10;

pub(super) fn show_disk_use(
    opened: &ScopedStore,
    used: &DiskUse,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let packs = format!("objects in {}", noun_count(used.packs, "pack"));
    let rows = [
        ("journals", used.journals),
        ("state", used.state),
        ("transcripts", used.transcripts),
        ("locks and watermarks", used.session_files),
        (packs.as_str(), used.objects),
        ("index", used.index),
        ("workspace caches", used.caches),
        ("removed, not deleted yet", used.removed),
        ("imports, not finished", used.imports),
        ("other", used.other),
    ];
    out.line("")?;
    for (what, bytes) in rows.iter().filter(|(_, bytes)| *bytes > 0) {
        disk_use_row(out, *bytes, what)?;
    }
    if used.sessions.is_empty() {
        return Ok(());
    }
    if opened.scope == SessionScope::Project {
        out.line("")?;
        out.line("by project, without the objects, which all share")?;
        for project in used.projects.iter().take(NAMED) {
            disk_use_row(
                out,
                project.bytes,
                &escape::text(&disk_use_project_line(opened, used, project)),
            )?;
        }
        let rest = used.projects.get(NAMED..).unwrap_or_default();
        if !rest.is_empty() {
            let bytes = rest.iter().map(|project| project.bytes).sum();
            disk_use_row(out, bytes, &format!("{} more", rest.len()))?;
        }
    }
    out.line("")?;
    out.line("the largest sessions, without their objects")?;
    for session in used.sessions.iter().take(NAMED) {
        let short =
            session.session.map_or_else(|| session.name.clone(), |id| id.short(SessionId::SHORT));
        let name = session.session.and_then(|id| opened.name_of(id));
        let name = name.map(|name| format!("{name}  ")).unwrap_or_default();
        disk_use_row(out, session.bytes, &escape::text(&format!("{name}{short}")))?;
    }
    let rest = used.sessions.get(NAMED..).unwrap_or_default();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|session| session.bytes).sum();
        disk_use_row(out, bytes, &format!("{} more", rest.len()))?;
    }
    Ok(())
}

/// The display name of a project, from one of its sessions, and its number of sessions.
fn disk_use_project_line(opened: &ScopedStore, used: &DiskUse, project: &ProjectUse) -> String {
    let mut of_it = used.sessions.iter().filter(|session| session.project == project.project);
    let name =
        of_it.find_map(|session| project_name(&disk_use_session_fields(opened, session.session?)?));
    let name = name.filter(|_| project.project.is_some());
    let name = name.unwrap_or_else(|| "no project".to_owned());
    format!("{name}  {}", noun_count(project.sessions, "session"))
}

fn disk_use_row(out: &mut CommandOutput, bytes: u64, what: &str) -> Result<(), CommandError> {
    out.line(format_args!("{:>10}  {what}", ByteSize(bytes).to_string()))
}

fn disk_use_session_fields(opened: &ScopedStore, session: SessionId) -> Option<SessionFields> {
    let view = opened.store.view(&SessionRef::Id(session)).ok()?;
    Some(view.state().ok()?.core.fields)
}
