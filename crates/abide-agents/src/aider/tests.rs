//! The commands that start Aider.

use crate::AgentKind;
use crate::tests::words;

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

#[test]
fn its_prompt_is_its_message() {
    let own = |command: &str| {
        let slot = KIND.prompt_slot(&words(command));
        slot.map(|slot| slot.own().map(str::to_owned))
    };
    assert_eq!(own("aider --yes -m fix a.py"), Some(Some("fix".to_owned())));
    assert_eq!(own("aider --message=fix a.py"), Some(Some("fix".to_owned())));
    assert_eq!(own("aider a.py"), Some(None));
    assert_eq!(own("aider --message-file prompt.md"), None);
    let slot = KIND.prompt_slot(&words("aider --message=fix a.py")).unwrap();
    assert_eq!(slot.fill("go on".to_owned()), ["aider", "--message", "go on", "a.py"]);
    let slot = KIND.prompt_slot(&words("aider a.py")).unwrap();
    assert_eq!(slot.fill("go on".to_owned()), ["aider", "--message", "go on", "a.py"]);
    assert_eq!(KIND.prompt_input(&words("aider a.py")), None);
    assert!(AgentKind::detect(&words("aider -m fix")).prints_text());
}
