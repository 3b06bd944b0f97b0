//! When an agent last told something through its hooks.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::hook_inbox::HEARD;

/// The last time that a hook of this agent landed a report in the store at this path.
#[must_use]
pub fn last_heard(store: &Path, agent: &str) -> Option<SystemTime> {
    let path = store.join("hooks").join(agent).join(HEARD);
    fs::metadata(path).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::time::Duration;

    use super::*;
    use crate::HookInbox;

    #[test]
    fn a_report_that_lands_is_heard_and_one_that_is_recorded_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let agent = crate::PluginHost::agents().next().unwrap();
        assert_eq!(last_heard(dir.path(), agent.as_str()), None);
        let inbox = HookInbox::of_store(dir.path()).session(agent, "s");
        let landed = inbox.land("s", "{}").unwrap();
        let heard = dir.path().join("hooks").join(agent.as_str()).join(HEARD);
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(30);
        let file = File::options().write(true).open(heard).unwrap();
        file.set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        inbox.remove_report(&landed.name).unwrap();
        inbox.forget();
        assert_eq!(last_heard(dir.path(), agent.as_str()), Some(long_ago));
        inbox.land("s", "{}").unwrap();
        assert!(last_heard(dir.path(), agent.as_str()).unwrap() > long_ago);
    }
}
