//! `abide acp` as a command: what it says when it cannot begin.

use crate::environment::TestEnvironment;
use crate::terminal::on_terminal;

#[test]
fn without_an_agent_it_says_how_to_name_one() {
    let env = TestEnvironment::new();
    for args in [&["acp"][..], &["acp", "--"], &["acp", "--", ""]] {
        let done = env.run(args).failure(2);
        assert_eq!(done.stdout(), "", "stdout is the protocol's");
        assert!(done.stderr.contains("abide acp -- opencode acp"), "{}", done.stderr);
    }
}

#[test]
fn an_agent_that_is_not_there_is_named_and_stdout_stays_empty() {
    let env = TestEnvironment::bare();
    let done = env.run(&["acp", "--", "no-such-agent", "--acp"]).failure(1);
    assert_eq!(done.stdout(), "", "stdout is the protocol's");
    assert!(done.stderr.contains("cannot start the agent \"no-such-agent\""), "{}", done.stderr);
    assert!(done.stderr.contains("\nHint: "), "{}", done.stderr);
    assert!(!env.store().exists(), "nothing was recorded, and nothing is there");
}

#[test]
fn started_by_hand_it_says_what_it_is() {
    let env = TestEnvironment::new();
    let Some(done) = on_terminal(&env, "acp -- true") else { return };
    assert!(done.stdout().contains("Agent Client Protocol"), "{}", done.stdout());
    assert!(done.stdout().contains("docs/acp.md"), "{}", done.stdout());
}
