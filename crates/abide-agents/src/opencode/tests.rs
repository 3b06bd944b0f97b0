//! The commands that start opencode.

use crate::AgentKind;
use crate::tests::words;

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

#[test]
fn its_prompt_is_behind_run() {
    let own = |command: &str| {
        let slot = KIND.prompt_slot(&words(command));
        slot.map(|slot| slot.own().map(str::to_owned))
    };
    assert_eq!(own("opencode run -m a/b fix the test"), Some(Some("fix the test".to_owned())));
    assert_eq!(own("opencode run fix --model a/b it -- now"), Some(Some("fix it now".to_owned())));
    assert_eq!(own("opencode run --continue"), Some(None));
    assert_eq!(own("opencode --prompt fix"), Some(Some("fix".to_owned())));
    assert_eq!(own("opencode"), Some(None));
    assert_eq!(own("opencode serve"), None);
    let fill = |command: &str| {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        slot.fill("go on".to_owned()).join("|")
    };
    assert_eq!(fill("opencode run fix --model a/b it"), "opencode|run|go on|--model|a/b");
    assert_eq!(fill("opencode run -c"), "opencode|run|-c|--|go on");
    assert_eq!(fill("opencode -c"), "opencode|-c|--prompt|go on");
    assert!(AgentKind::detect(&words("opencode run fix")).prints_text());
}

#[test]
fn a_text_on_stdin_is_added_to_its_prompt() {
    let input = |command: &str| KIND.prompt_input(&words(command));
    assert_eq!(input("opencode run fix it").unwrap().prompt("log"), "fix it\nlog");
    assert!(input("opencode run -c").unwrap().is_alone());
    assert_eq!(input("opencode"), None);
}
