//! `abide doctor` on a shared store.

use crate::environment::{Done, HELLO, TestEnvironment, run};
use crate::shared_commands::database;

fn told(env: &TestEnvironment, url: &str, args: &[&str], input: &str) -> Done {
    let mut command = env.command(args);
    command.env("ABIDE_STORE", url);
    run(command, input.as_bytes())
}

#[test]
fn a_damaged_session_of_a_shared_store_is_repaired() {
    let Some((server, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let on = |args: &[&str]| told(&env, &url, args, "");
    on(&["store", "init"]).success();
    told(&env, &url, &["record", "--key", "one"], &format!("{HELLO}\n{HELLO}\n")).success();
    let sound = on(&["doctor"]).success();
    assert!(sound.stdout().contains("1 session, "), "{sound:?}");
    assert!(sound.stdout().contains(" checked; no findings\n"), "{sound:?}");
    let nothing = on(&["doctor", "--repair", "--yes"]).success();
    assert!(nothing.stderr.contains("There is nothing to repair"), "{nothing:?}");
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    server.sql(database, "UPDATE abide.event SET line = line || 'x'::bytea WHERE seq = 3");
    let found = on(&["doctor"]).failure(1);
    assert!(found.stdout().contains("error[journal-damage]: session "), "{found:?}");
    assert!(found.stdout().contains("event 3 is lost"), "{found:?}");
    let plan = on(&["doctor", "--repair", "--dry-run"]).failure(1);
    for part in [
        "  partial (chosen): ",
        "  - move what cannot be read to the table `quarantine`: event 3\n",
        "  - record as lost: event 3\n",
    ] {
        assert!(plan.stdout().contains(part), "{part}: {plan:?}");
    }
    let before = on(&["doctor", "--json"]).failure(1).json_lines().remove(0);
    assert_eq!(before["findings"][0]["place"]["seq"], 3);
    let done = on(&["doctor", "--repair", "--yes"]).success();
    assert!(done.stdout().contains("what was replaced is in the table `quarantine`"), "{done:?}");
    assert!(!done.stdout().contains("undo --repair"), "{done:?}");
    assert!(done.stdout().contains("was repaired in part and needs review"), "{done:?}");
    let refused = on(&["undo", "--repair"]).failure(1);
    assert!(refused.stderr.contains("a repair of a shared store is not undone"), "{refused:?}");
    let session = before["findings"][0]["session"].as_str().unwrap();
    on(&["doctor", session, "--accept"]).success();
    let sound = on(&["doctor"]).success();
    assert!(!sound.stdout().contains("review"), "{sound:?}");
    told(&env, &url, &["record", "--key", "one"], &format!("{HELLO}\n")).success();
    on(&["doctor"]).success();
}
