//! What an agent can do itself, and what the proxy does for it.

use crate::member_splice::{member, member_text, spliced_with_member};

/// What an agent says about itself in its answer to `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Abilities {
    /// The negotiated protocol version.
    pub(crate) version: u64,
    /// The agent's name.
    pub(crate) name: String,
    /// `session/load`.
    pub(crate) load: bool,
    /// `session/list`.
    pub(crate) list: bool,
    /// `session/resume`.
    pub(crate) resume: bool,
    /// `session/close`.
    pub(crate) close: bool,
    /// `session/delete`.
    pub(crate) delete: bool,
    /// `session/fork`.
    pub(crate) fork: bool,
}

/// The session capabilities that the proxy adds for an agent that lacks them.
const SESSION: [&str; 5] = ["list", "resume", "close", "delete", "fork"];

impl Abilities {
    /// Parses the result of `initialize`.
    pub(crate) fn read(result: &str) -> Self {
        let can = |name: &str| {
            let value = member(result, &["agentCapabilities", "sessionCapabilities", name]);
            value.is_some_and(|value| value.get().starts_with('{'))
        };
        let load = member(result, &["agentCapabilities", "loadSession"]);
        let version = member(result, &["protocolVersion"]);
        Self {
            version: version.and_then(|raw| raw.get().parse().ok()).unwrap_or(0),
            name: member_text(result, &["agentInfo", "name"]).unwrap_or_default().into_owned(),
            load: load.is_some_and(|value| value.get() == "true"),
            list: can("list"),
            resume: can("resume"),
            close: can("close"),
            delete: can("delete"),
            fork: can("fork"),
        }
    }

    /// The result of `initialize` with the added capabilities; every other byte is unchanged.
    pub(crate) fn completed(result: &str) -> Option<String> {
        let capabilities = member(result, &["agentCapabilities"]).map_or("{}", |raw| raw.get());
        let session = member(capabilities, &["sessionCapabilities"]);
        let mut session = session.map_or("{}", |raw| raw.get()).to_owned();
        for name in SESSION.into_iter().rev() {
            let there = member(&session, &[name]).is_some_and(|raw| raw.get().starts_with('{'));
            if !there {
                session = spliced_with_member(&session, name, "{}")?;
            }
        }
        let capabilities = spliced_with_member(capabilities, "sessionCapabilities", &session)?;
        let capabilities = spliced_with_member(&capabilities, "loadSession", "true")?;
        spliced_with_member(result, "agentCapabilities", &capabilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_added_and_the_rest_stays() {
        let bare = r#"{"protocolVersion":1, "x":1.0}"#;
        let read = Abilities::read(bare);
        assert_eq!((read.version, read.load, read.list), (1, false, false));
        let completed = Abilities::completed(bare).unwrap();
        assert!(completed.ends_with(r#""protocolVersion":1, "x":1.0}"#), "{completed}");
        let read = Abilities::read(&completed);
        assert!(read.load && read.list && read.resume && read.close && read.delete && read.fork);
        assert_eq!(Abilities::completed(&completed).unwrap(), completed);

        let some = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"y":{},"sessionCapabilities":{"list":{"_meta":{}},"fork":null}}}"#;
        let completed = Abilities::completed(some).unwrap();
        assert!(completed.contains(r#""list":{"_meta":{}}"#) && completed.contains(r#""y":{}"#));
        assert!(Abilities::read(&completed).fork && Abilities::read(&completed).load);
    }
}
