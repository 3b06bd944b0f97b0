//! Secrets are marks before anything is written: no file has one, whichever way it came.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{ABIDE, TestEnvironment, files, run};
use crate::fault::skipped;
use crate::random_text::RandomText;
use crate::vendor_shapes::{SHAPES, plant};

/// Nothing is compressed, and everything that can be kept is.
const PLAIN: &str = "version = 1\ntranscript = \"live\"\n[journal]\nseal = false\nobject_bytes = 4096\n\
    [objects]\ncompression = \"none\"\n";

/// Made here, so that no scanner takes this file for a leak.
pub(crate) fn token() -> String {
    format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
}

/// The part of it that no mark has.
pub(crate) fn inner() -> String {
    token()[6..30].to_owned()
}

/// Sets the user's own settings.
pub(crate) fn configure(env: &TestEnvironment, settings: &str) {
    let dir = env.path("home/.config/abide");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), settings).unwrap();
}

fn plain() -> TestEnvironment {
    let env = TestEnvironment::new();
    fs::write(env.store().join("config.toml"), PLAIN).unwrap();
    env
}

/// Every file that a process of abide may have written.
pub(crate) fn written(env: &TestEnvironment) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = files(&env.path("home"));
    all.extend(files(&env.store()));
    all
}

#[track_caller]
pub(crate) fn assert_nowhere(env: &TestEnvironment, secret: &str) {
    for (path, bytes) in written(env) {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{} has it:\n{}", path.display(), String::from_utf8_lossy(&bytes));
    }
}

fn message(text: &str) -> String {
    json!({"kind": "message.added", "data": {"role": "user", "content": text}}).to_string()
}

fn result(call: &str, text: &str) -> String {
    json!({"kind": "tool.finished", "data": {"call": call, "ok": true, "result": text}}).to_string()
}

/// The text as a JSON string in which nothing stands as it is.
fn in_escapes(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Those of the secrets of which a part that would help anybody is in a file.
fn survivors(dir: &TestEnvironment, secrets: &[(String, String)]) -> Vec<String> {
    let mut beginnings: HashMap<&[u8], Vec<(usize, &[u8])>> = HashMap::new();
    for (number, (_, secret)) in secrets.iter().enumerate() {
        for line in secret.lines().filter(|line| !line.starts_with("-----")) {
            let part = (line.len() / 2).clamp(8, 40);
            for window in line.as_bytes().windows(part) {
                beginnings.entry(&window[..8]).or_default().push((number, window));
            }
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for (_, bytes) in written(dir) {
        for (at, window) in bytes.windows(8).enumerate() {
            for (number, whole) in beginnings.get(window).into_iter().flatten() {
                if bytes[at..].starts_with(whole) {
                    found.insert(*number);
                }
            }
        }
    }
    found.into_iter().map(|number| secrets[number].0.clone()).collect()
}

#[test]
fn of_planted_secrets_none_is_in_any_file() {
    let env = plain();
    let mut random = RandomText(0x005e_c2e7);
    let (mut secrets, mut lines) = (Vec::new(), Vec::new());
    for (number, (kind, shape)) in SHAPES.iter().enumerate() {
        for form in ["text", "escapes", "diff", "dump", "nested", "large"] {
            let (text, place) = plant(shape, &mut random);
            secrets.push((format!("{kind} in {form}"), text[place].to_owned()));
            let call = format!("c{number}");
            lines.push(match form {
                "text" => message(&format!("Here it is: {text}")),
                "escapes" => format!(
                    r#"{{"kind":"message.added","data":{{"role":"user","content":"it is {}"}}}}"#,
                    in_escapes(&text)
                ),
                "diff" => result(&call, &text.lines().map(|line| format!("+{line}\n")).collect::<String>()),
                "dump" => result(&call, &format!("HOME=/root\n{text}\nLANG=C\n")),
                "nested" => json!({"kind": "tool.called", "data": {"call": call, "name": "bash",
                    "arguments": {"raw": json!({"command": format!("echo '{text}'")}).to_string()}}})
                .to_string(),
                _ => {
                    let blank = "nothing to see here\n".repeat(300);
                    result(&call, &format!("{blank}{text}\n{blank}"))
                }
            });
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "k"], &lines).success();
    env.run(&["search", "nothing"]).success();
    let left = survivors(&env, &secrets);
    println!("{} planted in {} kinds, {} left: {left:?}", secrets.len(), SHAPES.len(), left.len());
    assert!(left.len() * 100 <= secrets.len(), "{left:?}");
    assert!(written(&env).iter().any(|(path, _)| path.to_string_lossy().contains("objects")));
}

/// What a command and its children write to files, in lower case, as strace shows it.
fn written_under_strace(env: &TestEnvironment, args: &[&str], input: &str) -> String {
    let log = env.path("strace.log");
    let mut command = env.isolate(Command::new("strace"));
    command.args(["-f", "-qq", "-y", "-s", "16777216", "-o"]).arg(&log);
    command.args(["-e", "trace=write,pwrite64,writev,pwritev,pwritev2", ABIDE]).args(args);
    run(command, input.as_bytes()).success();
    let log = fs::read_to_string(log).unwrap().to_ascii_lowercase();
    // Pipes, sockets and terminals are no files; `4</path>` is one, below the directory of the test.
    let at_file = |line: &&str| {
        line.split_once('<').is_some_and(|(_, to)| to.starts_with('/') && !to.starts_with("/dev/"))
    };
    log.lines().filter(at_file).collect::<Vec<_>>().join("\n")
}

/// A file may hold a secret for a moment and be gone: nothing that looks at files would see it.
#[test]
fn no_process_writes_a_planted_secret_for_a_moment() {
    if skipped() {
        return;
    }
    let env = plain();
    let mut random = RandomText(0x0005_72ac);
    let (mut secrets, mut lines) = (Vec::new(), vec![message("wordthatstays")]);
    for (kind, shape) in SHAPES {
        let (text, place) = plant(shape, &mut random);
        secrets.push((*kind, text[place].to_owned()));
        lines.push(result("c", &format!("HOME=/root\n{text}\nLANG=C\n")));
    }
    let mut writes =
        written_under_strace(&env, &["record", "--key", "k"], &(lines.join("\n") + "\n"));
    assert!(writes.contains("wordthatstays"), "what is recorded is seen");
    let token = token();
    let (left, right) = token.split_at(17);
    let script =
        format!("echo otherwordthatstays; printf 'it is {left}'; sleep 0.4; echo '{right} so'\n");
    fs::write(env.project().join("agent.sh"), script).unwrap();
    let agent = ["run", "--checkpoint", "off", "--", "sh", "agent.sh", &token];
    let run = written_under_strace(&env, &agent, "");
    assert!(run.contains("otherwordthatstays"), "what an agent prints is seen");
    writes += &run;
    for args in [&["search", "wordthatstays"][..], &["export", "-o", "out.jsonl"], &["doctor"]] {
        writes += &written_under_strace(&env, args, "");
    }
    secrets.push(("the token of a run", token));
    let survives = |secret: &str| {
        secret.lines().filter(|line| !line.starts_with("-----")).any(|line| {
            let line = line.to_ascii_lowercase();
            let part = (line.len() / 2).clamp(8, 40);
            line.as_bytes()
                .windows(part)
                .any(|part| memchr::memmem::find(writes.as_bytes(), part).is_some())
        })
    };
    let left: Vec<&str> =
        secrets.iter().filter(|(_, secret)| survives(secret)).map(|(kind, _)| *kind).collect();
    println!("{} planted, {} written: {left:?}", secrets.len(), left.len());
    assert!(left.len() * 100 <= secrets.len(), "{left:?}");
    assert!(!left.contains(&"the token of a run"));
}

#[test]
fn every_name_that_somebody_gives_has_marks() {
    let env = plain();
    let (token, title) = (token(), format!("use {} twice", token()));
    env.run(&["new", "--key", &token, "--title", &title, "--label", &format!("a={token}")])
        .success();
    let head =
        json!({"kind": "x.y", "data": {&token: 1}, "key": token, "task": token, "lane": token});
    for repeated in [Value::Null, true.into()] {
        let answer = env.record(&["--key", &token], &[&head.to_string()]).success().json_lines();
        assert_eq!(answer[0]["repeated"], repeated, "the same mark each time: {answer:?}");
    }
    env.run(&["tasks", "add", &title]).success();
    env.run(&["save", "-m", &title]).success();
    env.run(&["rename", &format!("another {token}")]).success();
    env.run(&["history"]).success();
    let sessions = env.run(&["history", "--json"]).success();
    let sessions: Value = serde_json::from_str(sessions.stdout()).unwrap();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "one session: {sessions}");
    let shown = env.run(&["show"]).success();
    assert!(shown.stdout().contains("‹redacted:github"), "{shown:?}");
    assert_nowhere(&env, &inner());
}

#[test]
fn a_mark_says_what_was_there_and_the_event_how_much() {
    let env = plain();
    let line = message(&format!("use {} or {}", token(), token()));
    env.record(&["--key", "one"], &[&line]).success();
    env.record(&["--key", "two"], &[&line]).success();
    let of = |key: &str| {
        let events = env.run(&["export", key]).success().json_lines();
        events.into_iter().find(|event| event["kind"] == "message.added").unwrap()["data"].clone()
    };
    let (one, two) = (of("one"), of("two"));
    assert_eq!(one, two, "the same secret is the same mark in every process");
    let content = one["content"].as_str().unwrap();
    let mark = content.split(' ').nth(1).unwrap();
    assert!(mark.starts_with("‹redacted:github") && mark.ends_with('›'), "{content}");
    assert_eq!(content, format!("use {mark} or {mark}"));
    let data: Value = serde_json::from_str(&line).unwrap();
    let rule = mark.split(':').nth(1).unwrap();
    let counts = json!({"redacted": {"bytes": data["data"].to_string().len(), "rules": {rule: 2}}});
    assert_eq!(one["abide"], counts);
    // What a model gets has no notes of ours.
    let context = env.run(&["context", "one", "--format", "openai"]).success();
    assert!(
        context.stdout().contains(mark) && !context.stdout().contains("\"rules\""),
        "{context:?}"
    );
    let key = env.path("home/.local/state/abide/mark-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_nowhere(&env, &inner());
}

#[test]
fn values_of_the_environment_and_of_dotenv_files_are_known() {
    let env = plain();
    fs::write(env.project().join(".env"), "DB_PASSWORD=correct-horse-1\n").unwrap();
    let mut command = env.command(&["record", "--key", "k"]);
    command.env("MY_TOKEN", "battery-staple-2");
    let base64 = "YmF0dGVyeS1zdGFwbGUtMg";
    let line = message(&format!("correct-horse-1 battery-staple-2 {base64}"));
    run(command, format!("{line}\n").as_bytes()).success();
    for secret in ["correct-horse-1", "battery-staple-2", "YmF0dGVyeS1zdGFwbGUt"] {
        assert_nowhere(&env, secret);
    }
    let found = env.run(&["export", "k"]).success();
    assert!(found.stdout().contains(r#""rules":{"env":3}"#), "{found:?}");
}

#[test]
fn what_is_no_secret_is_recorded_byte_for_byte() {
    let env = plain();
    let signature = "Ab+/".repeat(60);
    let line = format!(
        r#"{{"kind":"message.added","data":{{"role":"assistant","content":[ {{"type":"thinking","thinking":"a\u00e9","signature":"{signature}"}} ],"n":1e400}}}}"#
    );
    env.record(&["--key", "k"], &[&line]).success();
    let data = &line[line.find("\"data\":").unwrap()..line.len() - 1];
    assert!(env.run(&["export", "k"]).success().stdout().contains(data));
    // Nothing was found, so no key was needed.
    assert!(!env.path("home/.local/state/abide/mark-key").exists());
}

#[test]
fn without_rules_nothing_is_recorded() {
    let env = plain();
    env.record(&["--key", "k"], &[&message("before")]).success();
    configure(&env, "[[secrets.rule]]\nid = \"mine\"\nregex = '('\nkeywords = [\"mine\"]\n");
    let before = written(&env);
    for args in
        [&["record", "--key", "k"][..], &["new"], &["run", "--", "true"], &["save", "-m", "x"]]
    {
        let line = message("after");
        let failed = run(env.command(args), format!("{line}\n").as_bytes()).failure(1);
        assert!(failed.stderr.contains("nothing is recorded or exported"), "{args:?}: {failed:?}");
        assert!(failed.stderr.contains("rule `mine`"), "{args:?}: {failed:?}");
    }
    let journal = |all: &[(std::path::PathBuf, Vec<u8>)]| {
        let lines =
            all.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
        lines.map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(journal(&before), journal(&written(&env)));
    let doctor = env.run(&["doctor"]).failure(1);
    assert!(doctor.stdout().contains("[secrets]"), "{doctor:?}");
    // What is there can be read.
    env.run(&["show", "k"]).success();
}

#[test]
fn a_store_does_not_decide_what_is_redacted() {
    let env = plain();
    env.record(&["--key", "k"], &[&message("before")]).success();
    // As it may come with a cloned repository.
    for settings in ["record = \"keep\"", "disable = [\"jwt\"]", "allow = []"] {
        let text = format!("{PLAIN}[secrets]\n{settings}\n");
        fs::write(env.store().join("config.toml"), text).unwrap();
        let line = message(&token());
        let refused = run(env.command(&["record", "--key", "k"]), line.as_bytes()).failure(1);
        assert!(refused.stderr.contains("[secrets] is for your own settings"), "{refused:?}");
    }
    assert_nowhere(&env, &inner());
}

#[test]
fn different_secrets_in_keys_are_different_keys() {
    let env = plain();
    let other = token().replace("R7kQ", "Q7kR");
    let line =
        |key: &str| json!({"kind": "x.y", "data": {}, "key": format!("job {key}")}).to_string();
    let lines = [line(&token()), line(&other), line(&token())];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answers = env.record(&["--key", &format!("s {}", token())], &lines).success().json_lines();
    let repeated: Vec<bool> = answers.iter().map(|it| it["repeated"] == true).collect();
    assert_eq!(repeated, [false, false, true]);
    let key = env.run(&["export", &format!("s {}", token())]).success().json_lines();
    let digits = key.iter().find_map(|event| event["key"].as_str()).unwrap().to_owned();
    let digits = digits.rsplit_once(':').unwrap().1.trim_end_matches('›');
    assert_eq!(digits.len(), 32, "{key:?}");
    // From another project, too.
    let elsewhere = env.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    for secret in [&inner(), &other[6..30].to_owned()] {
        assert_nowhere(&env, secret);
    }
}

#[test]
fn a_user_can_allow_values_and_rules_and_keep_secrets() {
    let env = plain();
    let recorded = |more: &str| {
        configure(&env, more);
        let key = format!("k{}", more.len());
        env.record(&["--key", &key], &[&message(&format!("{} acme_0123456789", token()))])
            .success();
        env.run(&["export", &key]).success().stdout().to_owned()
    };
    assert!(!recorded("").contains(&token()));
    assert!(recorded(&format!("[secrets]\nallow = [\"{}\"]\n", token())).contains(&token()));
    let own = "[[secrets.rule]]\nid = \"acme\"\nregex = 'acme_[0-9]{10}'\nkeywords = [\"acme_\"]\n";
    let both = recorded(own);
    assert!(both.contains("‹redacted:acme:") && !both.contains(&token()), "{both}");
    let rules = env.run(&["secrets", "rules"]).success();
    assert!(rules.stdout().lines().any(|line| line.starts_with("acme\t")));
    assert!(!env.run(&["doctor"]).success().stdout().contains("record ="));
    let kept = recorded("[secrets]\nrecord = \"keep\"\n");
    assert!(kept.contains(&token()) && !kept.contains("\"redacted\""), "{kept}");
    let doctor = env.run(&["doctor"]).success();
    assert!(doctor.stdout().contains("record = \"keep\""), "{doctor:?}");
}

#[test]
fn a_run_has_marks_wherever_its_agent_prints() {
    let env = plain();
    let (token, project) = (token(), env.project());
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    let (left, right) = token.split_at(17);
    // A token in two writes, on both outputs, and a key line by line with pauses.
    let script = format!(
        "printf 'it is {left}'; printf 'it is {left}' >&2; sleep 0.4\n\
         echo '{right} so'; echo '{right} so' >&2\n\
         echo '-----BEGIN PRIVATE KEY-----'; sleep 1.3; echo {body}; sleep 1.3; echo {body}\n\
         echo '-----END PRIVATE KEY-----'; echo done"
    );
    fs::write(project.join("agent.sh"), script).unwrap();
    env.run(&["run", "--checkpoint", "off", "--", "sh", "agent.sh", &token]).success();
    env.run(&["history"]).success();
    let events = env.run(&["export"]).success();
    for secret in [&inner(), &token[4..16], &token[20..32], body] {
        assert_nowhere(&env, secret);
    }
    for kept in ["it is ‹redacted:github", "› so", "‹redacted:private-key:", "done"] {
        assert!(events.stdout().contains(kept), "{kept}: {events:?}");
    }
    // The command cannot be run as it was recorded.
    let again = env.run(&["resume", "--retry-failed", "--yes"]);
    assert!(!again.stderr.contains("did not start the run"), "{again:?}");
}

#[test]
fn a_command_with_a_secret_is_asked_for_again() {
    let env = plain();
    let failing = ["run", "--checkpoint", "off", "--", "sh", "-c", "exit 3", &token()];
    env.run(&failing).failure(1);
    let refused = env.run(&["resume", "--retry-failed"]).failure(1);
    assert!(refused.stderr.contains("had a secret in it"), "{refused:?}");
    let given = ["resume", "--retry-failed", "--", "sh", "-c", "exit 0", &token()];
    env.run(&given).success();
    assert_nowhere(&env, &inner());
}

#[test]
fn a_plan_with_secrets_is_done_once_and_its_document_keeps_them() {
    let env = plain();
    let token = token();
    let path = env.project().join("PLAN.md");
    let plan = format!(
        "# Plan\n\n- [ ] Use {token}\n  It is {token}.\n- [ ] Then\n  depends: Use {token}\n"
    );
    fs::write(&path, &plan).unwrap();
    let run = || {
        let options = ["run", "--checkpoint", "off", "--plan", "PLAN.md", "--continue"];
        let agent = ["--write-back", "--", "sh", "-c", "echo ran >> ../ran"];
        env.run(&[&options[..], &agent].concat()).success()
    };
    run();
    let done = plan.replace("- [ ]", "- [x]");
    assert_eq!(fs::read_to_string(&path).unwrap(), done);
    fs::write(&path, format!("{done}- [ ] Last\n")).unwrap();
    let edited = run();
    assert!(edited.stderr.contains("2 tasks unchanged, 0 changed, 1 new"), "{edited:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{done}- [x] Last\n"));
    assert_eq!(fs::read_to_string(env.path("ran")).unwrap().lines().count(), 3);
    assert_nowhere(&env, &inner());
}

#[test]
fn a_check_with_a_secret_is_not_run_as_it_was_recorded() {
    let env = plain();
    let path = env.project().join("PLAN.md");
    fs::write(&path, format!("- [ ] One\n  check: echo {} > ../checked\n", token())).unwrap();
    let plan = ["run", "--checkpoint", "off", "--plan", "PLAN.md", "--continue", "--yes"];
    let agent = ["--", "sh", "-c", "echo ran >> ../ran"];
    let refused = env.run(&[&plan[..], &agent].concat()).failure(1);
    assert!(refused.stderr.contains("the check of task P1 had a secret in it"), "{refused:?}");
    assert!(!env.path("ran").exists() && !env.path("checked").exists());
    fs::write(&path, "- [ ] One\n").unwrap();
    // The check of a run is run as it was given, and asked for again later.
    let check = format!("test {} = ok", token());
    let more = ["--retries", "0", "--check", &check];
    let failed = env.run(&[&plan[..], &more, &agent].concat());
    assert_ne!(failed.code, 0, "{failed:?}");
    assert!(env.path("ran").exists(), "{failed:?}");
    let refused = env.run(&["resume", "--retry-failed", "--yes"]).failure(1);
    assert!(refused.stderr.contains("the check of the last run had a secret"), "{refused:?}");
    env.run(&["resume", "--retry-failed", "--yes", "--check", "true"]).success();
    assert_nowhere(&env, &inner());
}
