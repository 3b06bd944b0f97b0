//! Goes on with an imported session in its own agent: the agent's own program, by a template that abide
//! knows, in the session's directory. What the agent writes meanwhile is imported afterwards.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use abide::{SessionFields, SessionId};
use abide_import::{FileImporter, FoundSession, SourceFinder};
use abide_runner::AgentKind;
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::conduct::check_program;
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// The longest id of an agent's session that is given to its program.
const ID_BYTES: usize = 128;

/// The session of an agent that a session was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportedFrom {
    agent: AgentKind,
    id: String,
}

impl ImportedFrom {
    /// By the key that an import gives; `None` if it was not imported.
    pub(crate) fn of(fields: &SessionFields) -> Option<Self> {
        let (agent, id) = fields.key.as_ref()?.split_once('/')?;
        let agent: AgentKind = agent.parse().ok()?;
        agent.kept_sessions()?;
        // It comes from a file and becomes an argument.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_id = !id.is_empty()
            && id.len() <= ID_BYTES
            && !id.starts_with(['-', '.'])
            && id.bytes().all(plain);
        is_id.then(|| Self { agent, id: id.to_owned() })
    }

    fn find(&self, surroundings: &CommandContext) -> Option<FoundSession> {
        let finder = surroundings.source_finder();
        let found = SourceFinder { agent: Some(self.agent), ..finder }.find();
        found.sessions.into_iter().find(|session| session.id == self.id)
    }

    /// Runs the agent in its session, and imports what it writes.
    pub(crate) fn resume(
        &self,
        session: SessionId,
        fields: &SessionFields,
        opened: &ScopedStore,
        yes: bool,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let short = session.short(SessionId::SHORT);
        let agent = self.agent.as_str();
        if self.find(surroundings).is_none() {
            return Err(CommandError::failed(format!(
                "{agent} does not have its session {} on this machine",
                self.id
            ))
            .with_hint(format!(
                "`abide resume {short} --with {agent}` continues in a new one, with the conversation as its beginning"
            )));
        }
        let Some(kept) = self.agent.kept_sessions() else {
            return Err(CommandError::failed("its agent keeps no sessions"));
        };
        let mut command = vec![self.agent.program().to_owned()];
        command.extend((kept.resume)(&self.id));
        let directory = fields.workspace.as_ref().map(PathBuf::from);
        let directory = directory.unwrap_or_else(|| surroundings.current_dir.clone());
        if !directory.is_dir() {
            let shown = directory.to_string_lossy();
            return Err(CommandError::failed(format!(
                "its directory {} is not there",
                escape::text(&shown)
            )));
        }
        check_program(&command, &directory, surroundings)?;
        status(format_args!("  command    {}", escape::text(&command.join(" "))));
        status(format_args!("  directory  {}", escape::text(&directory.to_string_lossy())));
        confirm("Run it?", yes, None)?;
        let mut words = command.iter();
        let program = words.next().cloned().unwrap_or_default();
        let ended = Command::new(&program).args(words).current_dir(&directory).status();
        let ended = ended.map_err(crate::error::at("run", PathBuf::from(program)))?;
        if let Some(found) = self.find(surroundings) {
            let projects = surroundings.projects_of_import(opened);
            let mut importer = FileImporter::new(&opened.store, Some(projects));
            let done = importer.import(&[found], &AtomicBool::new(false), &|_| {});
            let done = done.map_err(CommandError::because)?;
            let records = done.sessions.iter().flatten().map(|one| one.records).sum::<u64>();
            done.failed.values().for_each(warning);
            status(format_args!("Imported {} of {agent}", noun_count(records, "new record")));
        }
        match ended.success() {
            true => Ok(()),
            false => Err(CommandError::failed(format!("{agent} ended with {ended}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_of_an_import_is_given_to_a_program() {
        let of = |key: &str| {
            let fields = SessionFields { key: Some(key.to_owned()), ..SessionFields::default() };
            ImportedFrom::of(&fields).map(|from| from.id)
        };
        let agent = AgentKind::all().find(|agent| agent.kept_sessions().is_some()).unwrap();
        let agent = agent.as_str();
        assert_eq!(of(&format!("{agent}/0199-ab_c.d")).as_deref(), Some("0199-ab_c.d"));
        let long = "a".repeat(ID_BYTES + 1);
        for bad in ["", "-p", "--help", ".x", "a b", "a/b", "a;b", "$(x)", &long] {
            assert_eq!(of(&format!("{agent}/{bad}")), None, "{bad}");
        }
        assert_eq!(of("my-agent/1"), None);
        assert_eq!(of("1"), None);
    }
}
