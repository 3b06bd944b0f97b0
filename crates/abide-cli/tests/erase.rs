//! `abide erase`: what is erased is nowhere.

use std::fs;
use std::io::Read;

use crate::environment::{TestEnvironment, files};

pub(crate) const SECRET: &str = "hunter2-5d41402abc4b2a76";

fn message(text: &str) -> String {
    format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
}

/// Every file of the store in which the text stands; packed bytes are unpacked first.
pub(crate) fn holding(env: &TestEnvironment, text: &str) -> Vec<String> {
    let store = env.store();
    files(&store)
        .into_iter()
        .filter(|(path, bytes)| {
            let name = path.to_string_lossy();
            let mut plain = vec![bytes.clone()];
            if name.ends_with(".zst") || name.ends_with(".pack") {
                plain.extend(unpacked(bytes));
            }
            plain.iter().any(|bytes| memchr::memmem::find(bytes, text.as_bytes()).is_some())
        })
        .map(|(path, _)| path.display().to_string())
        .collect()
}

/// Every zstd frame in these bytes.
fn unpacked(bytes: &[u8]) -> Vec<Vec<u8>> {
    memchr::memmem::find_iter(bytes, &[0x28, 0xb5, 0x2f, 0xfd])
        .map(|at| {
            let mut plain = Vec::new();
            let frame = zstd::stream::read::Decoder::new(&bytes[at..]).unwrap();
            let _ = frame.single_frame().read_to_end(&mut plain);
            plain
        })
        .collect()
}

/// A session with the secret in a message, a large payload, a tool's result and a title.
fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.keep_transcripts();
    let large = format!("{} {SECRET} {}", "a".repeat(80_000), "b".repeat(80_000));
    let tool = format!(
        r#"{{"kind":"tool.finished","data":{{"call":"c","ok":true,"result":"key={SECRET}"}}}}"#
    );
    env.record(
        &["--title", "a session"],
        &[
            &message("before"),
            &message(&format!("my password is {SECRET}")),
            &message(&large),
            r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{}}}"#,
            &tool,
            &format!(
                r#"{{"kind":"session.updated","data":{{"title":"use \u0068{}"}}}}"#,
                &SECRET[1..]
            ),
            &message("after"),
        ],
    )
    .success();
    env
}

#[test]
fn what_is_erased_is_nowhere_and_the_chain_is_whole() {
    let env = recorded();
    env.run(&["show"]).success();
    env.run(&["history", "--search", "hunter2"]);
    let all = holding(&env, SECRET);
    for end in [".jsonl", ".pack", "transcript.task"] {
        assert!(all.iter().any(|path| path.ends_with(end)), "{end}: {all:?}");
    }
    let shown = env.run(&["erase", "--match", SECRET, "--dry-run"]).success();
    assert_eq!(shown.stdout().lines().count(), 4, "{shown:?}");
    assert!(shown.stdout().contains("1 object"), "{shown:?}");
    assert!(!shown.stdout().contains(SECRET));
    assert!(!holding(&env, SECRET).is_empty());

    let done = env.run(&["erase", "--match", SECRET, "--reason", "a password", "--yes"]).success();
    assert!(done.stdout().contains("Erased 4 payloads and 1 object "), "{done:?}");
    assert_eq!(holding(&env, SECRET), [""; 0]);
    // The call of the conversation was never answered.
    let clean = env.run(&["doctor"]).success();
    assert!(clean.stdout().contains("1 warning\n"), "{clean:?}");
    assert!(clean.stdout().contains("warning[open-call]"), "{clean:?}");
    let story = env.run(&["show", "--all"]).success();
    assert!(story.stdout().contains("before") && story.stdout().contains("after"), "{story:?}");
    assert!(story.stdout().contains("a password"), "{story:?}");
    // The index and the transcript were made anew, and know nothing of it.
    let found = env.run(&["history", "--search", "hunter2"]);
    assert!(!found.stdout().contains(SECRET), "{found:?}");
    assert_eq!(holding(&env, SECRET), [""; 0]);
    let transcript = fs::read_to_string(env.session_dir().join("transcript.task")).unwrap();
    assert!(transcript.contains("after") && transcript.contains("erased"));
    // And the session goes on.
    let name = env.session_dir().file_name().unwrap().to_string_lossy().into_owned();
    let short = name.rsplit('-').next().unwrap();
    env.record(&["--session", short], &[&message("more")]).success();
    let clean = env.run(&["doctor"]).success();
    assert!(clean.stdout().contains("1 warning\n"), "{clean:?}");
}

#[test]
fn events_are_named_and_what_cannot_be_erased_is_refused() {
    let env = recorded();
    let usage = env.run(&["erase"]).failure(2);
    assert!(usage.stderr.contains("name the events"), "{usage:?}");
    let none = env.run(&["erase", "@99", "--yes"]).failure(1);
    assert!(none.stderr.contains("has no event 99"), "{none:?}");
    // The second event is `writer.opened`.
    let kept = env.run(&["erase", "@2", "--yes"]).failure(1);
    assert!(kept.stderr.contains("cannot be erased"), "{kept:?}");
    let asked = env.run(&["erase", "@3"]).failure(1);
    assert!(asked.stderr.contains("no terminal to ask on"), "{asked:?}");
    env.run(&["tail", "-n", "100", "--json"]).success();
    env.run(&["erase", "@3", "--yes"]).success();
    let again = env.run(&["erase", "@3", "--yes", "--json"]).success();
    assert_eq!(again.json_lines()[0]["payloads"], 0);
    let nothing = env.run(&["erase", "--match", "not there at all", "--yes"]).failure(1);
    assert!(nothing.stderr.contains("no event and no file contains this text"), "{nothing:?}");
}

#[test]
fn what_cannot_be_erased_is_told_and_the_rest_is_erased() {
    let env = TestEnvironment::new();
    env.record(&[], &[&message("before"), &message(SECRET), &message(SECRET)]).success();
    // The reason is recorded, in an event that cannot be erased.
    env.run(&["erase", "@4", "--reason", &format!("{SECRET} leaked"), "--yes"]).success();
    let dry = env.run(&["erase", "--match", SECRET, "--dry-run"]).success();
    assert_eq!(dry.stdout().lines().count(), 1, "{dry:?}");
    let left = env.run(&["erase", "--match", SECRET, "--yes"]).failure(1);
    assert!(left.stdout().contains("Erased 1 payload"), "{left:?}");
    assert!(left.stderr.contains("Error: the text is still in the data of @"), "{left:?}");
    let shown = env.run(&["show", "--json"]).success();
    assert!(!shown.stdout().contains(&format!(r#""content":"{SECRET}""#)), "{shown:?}");
    // Now nothing else has it.
    let left = env.run(&["erase", "--match", SECRET, "--yes"]).failure(1);
    assert!(left.stderr.contains("Error: the text is still in the data of @"), "{left:?}");
    assert_eq!(left.stdout(), "");
}

#[test]
fn an_object_that_another_event_names_stays() {
    let env = TestEnvironment::new();
    let large = message(&"shared ".repeat(20_000));
    env.record(&[], &[&large, &large]).success();
    let done = env.run(&["erase", "@3", "--yes"]).success();
    assert!(done.stdout().contains("0 objects"), "{done:?}");
    assert!(done.stdout().contains("1 object is kept"), "{done:?}");
    env.run(&["doctor"]).success();
    let done = env.run(&["erase", "@4", "--yes", "--json"]).success();
    assert_eq!(done.json_lines()[0]["objects"], 1);
    env.run(&["doctor"]).success();
}

/// The events of a session of this kind.
fn events(env: &TestEnvironment, session: &str, kind: &str) -> Vec<String> {
    let shown = env.run(&["show", session, "--json"]).success().json_lines();
    let of = shown.iter().filter(|event| event["kind"] == kind);
    of.map(|event| format!("@{}", event["seq"])).collect()
}

/// Bytes that cannot be compressed, so that a pack is full of them.
fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

/// A project whose first checkpoint holds the secret in a file, and the second does not. The files
/// went back to the first one since.
fn rewound() -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    let session = env.run(&["new"]).success().stdout().trim().to_owned();
    let file = |name: &str, bytes: &[u8]| fs::write(env.project().join(name), bytes).unwrap();
    file("large", &noise(400_000));
    file("config", format!("{}\nkey = {SECRET}\n", "line\n".repeat(2000)).as_bytes());
    env.run(&["checkpoint", "create", "--session", &session]).success();
    file("config", format!("{}\nkey = none\n", "line\n".repeat(2000)).as_bytes());
    env.run(&["checkpoint", "create", "--session", &session]).success();
    env.run(&["rewind", "-s", &session, "--to", "1", "--files", "--yes"]).success();
    (env, session)
}

#[test]
fn the_files_of_an_erased_checkpoint_are_nowhere() {
    let (env, session) = rewound();
    assert!(!holding(&env, SECRET).is_empty());
    let checkpoints = events(&env, &session, "checkpoint.created");
    let [rewind] = &events(&env, &session, "session.rewound")[..] else { panic!() };
    let shown = env.run(&["erase", &session, &checkpoints[0], "--dry-run"]).success();
    assert!(shown.stdout().contains("checkpoint.created, "), "{shown:?}");
    assert!(shown.stdout().contains("with its files"), "{shown:?}");
    let stays = format!("{rewind} session.rewound is kept, its files are deleted");
    assert!(shown.stdout().contains(&stays), "{shown:?}");
    let done = env.run(&["erase", &session, &checkpoints[0], "--yes"]).success();
    assert!(done.stdout().contains("Erased 1 payload and 3 objects"), "{done:?}");
    assert!(done.stdout().contains("1 of its files is kept"), "{done:?}");
    assert_eq!(holding(&env, SECRET), [""; 0]);
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().ends_with("no findings\n"), "{doctor:?}");
    // The other checkpoint is whole.
    env.run(&["rewind", "-s", &session, "--to", "2", "--files", "--yes"]).success();
    assert_eq!(fs::read(env.project().join("large")).unwrap(), noise(400_000));
    let config = fs::read_to_string(env.project().join("config")).unwrap();
    assert!(config.ends_with("key = none\n"));
}

#[test]
fn a_text_in_files_is_told_and_it_does_not_sound_finished() {
    let (env, session) = rewound();
    env.record(&["--session", &session], &[&message(&format!("it is {SECRET}"))]).success();
    let left = env.run(&["erase", &session, "--match", SECRET, "--yes"]).failure(1);
    assert!(left.stdout().contains("Erased 1 payload"), "{left:?}");
    assert!(left.stderr.contains("Error: the text is still in files: checkpoint 1 (@"));
    assert!(left.stderr.contains("holds the text in config"), "{left:?}");
    assert!(left.stderr.contains("Hint: `--files` erases these checkpoints too"), "{left:?}");
    assert!(!holding(&env, SECRET).is_empty());
    // Now only files have it.
    let left = env.run(&["erase", &session, "--match", SECRET, "--yes"]).failure(1);
    assert!(left.stderr.contains("Error: the text is still in files"), "{left:?}");
    assert_eq!(left.stdout(), "");
    let done = env.run(&["erase", "--all", "--match", SECRET, "--files", "--yes"]).success();
    assert!(done.stdout().contains("Erased 1 payload"), "{done:?}");
    assert_eq!(holding(&env, SECRET), [""; 0]);
    let nothing = env.run(&["erase", "--all", "--match", SECRET, "--files", "--yes"]).failure(1);
    assert!(nothing.stderr.contains("no event and no file contains this text"));
    env.run(&["doctor"]).success();
}

#[test]
fn what_a_fork_shows_is_erased_where_it_is() {
    for by_text in [true, false] {
        let env = TestEnvironment::new();
        let secret = message(&format!("my password is {SECRET}"));
        env.record(&[], &[&message("before"), &secret, &message("after")]).success();
        let name = env.session_dir().file_name().unwrap().to_string_lossy().into_owned();
        let parent = name.rsplit('-').next().unwrap().to_owned();
        let fork = env.run(&["fork", "-s", &parent]).success().stdout().trim().to_owned();
        let shown = env.run(&["show", &fork, "--all"]).success();
        assert!(shown.stdout().contains(SECRET), "{shown:?}");
        let args: &[&str] = if by_text { &["--match", SECRET] } else { &["@4"] };
        let args = [&["erase", &fork][..], args, &["--yes"]].concat();
        let done = env.run(&args).success();
        let told = format!("of session {parent}, which this one was forked from");
        assert!(done.stderr.contains(&told), "{done:?}");
        assert!(done.stdout().contains(&format!("of session {parent}")), "{done:?}");
        let shown = env.run(&["show", &fork, "--all"]).success();
        assert!(!shown.stdout().contains(SECRET), "{shown:?}");
        assert_eq!(holding(&env, SECRET), [""; 0]);
        let none = env.run(&["erase", &fork, "@99", "--yes"]).failure(1);
        assert!(none.stderr.contains("has no event 99"), "{none:?}");
    }
}
