//! Secrets: found in files, masked in a text and in a page that is shared.

use std::fs;

use crate::environment::{TestEnvironment, run};
use crate::redaction::configure;

/// Made here, so that no scanner takes this file for a leak.
fn token() -> String {
    format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
}

/// As if everything was recorded before secrets were redacted.
fn keeping() -> TestEnvironment {
    let env = TestEnvironment::new();
    configure(&env, "[secrets]\nrecord = \"keep\"\n");
    env
}

#[test]
fn a_shared_page_has_no_secret_that_is_known_by_its_form_or_its_value() {
    let env = keeping();
    let value = "correct-horse-battery-42";
    let project = env.project();
    fs::write(project.join(".env"), format!("DB_PASSWORD={value}\n")).unwrap();
    fs::write(project.join("deploy.sh"), "echo\n").unwrap();
    let id =
        env.run(&["new", "--title", &format!("use {}", token())]).success().stdout().to_owned();
    let id = id.trim();
    env.run(&["save", "-s", id]).success();
    fs::write(project.join("deploy.sh"), format!("curl -H 'X: {}'\n", token())).unwrap();
    env.run(&["save", "-s", id]).success();
    let said = |text: &str| {
        serde_json::json!({"kind": "message.added", "data": {"role": "user", "content": text}})
            .to_string()
    };
    let call = serde_json::json!({"kind": "tool.called", "data": {
        "call": "a", "name": "bash", "arguments": {"command": format!("psql -p {value}")}}});
    let result = serde_json::json!({"kind": "tool.finished", "data": {
        "call": "a", "ok": true, "result": format!("token: {}", token())}});
    // A key of several lines in an edit, a value that only its name tells of, a name cut from a prompt.
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n-----END PRIVATE KEY-----\n");
    let hex = "3f9a1c7be42d5086a1f3c9e07b6d2458";
    let edit = serde_json::json!({"kind": "tool.called", "data": {"call": "b", "name": "Edit",
        "arguments": {"file_path": "k.pem", "old_string": "x", "new_string": key}}});
    let named = serde_json::json!({"kind": "tool.called", "data": {"call": "c", "name": "deploy",
        "arguments": {"datadog_api_key": hex}}});
    // One text that was recorded in parts: neither part has all of it.
    let part = |text: &str| {
        let answer = serde_json::json!({"answer": "a1"});
        let data = serde_json::json!({"role": "assistant", "content": text, "abide": answer});
        serde_json::json!({"kind": "message.added", "data": data}).to_string()
    };
    let cut = token();
    let (begun, ended) = cut.split_at(20);
    let lines = [
        part(&format!("so {begun}")),
        part(&format!("{ended} it is")),
        said(&format!("it is {}", token())),
        call.to_string(),
        result.to_string(),
        edit.to_string(),
        named.to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["-s", id], &lines).success();
    let shared = env.run(&["share", id, "-o", "page.html"]).success();
    let page = fs::read_to_string(project.join("page.html")).unwrap();
    assert!(!page.contains(&token()[4..]) && !page.contains(value), "{page}");
    assert!(!page.contains(body) && !page.contains(hex), "{page}");
    assert!(page.contains("‹redacted:env:") && page.contains("psql -p"), "{page}");
    assert!(
        shared.stderr.contains(" secrets were masked: ") && shared.stderr.contains("env 1"),
        "{shared:?}"
    );
    // Where secrets are kept they are exported, and one text with a secret has the same mark throughout.
    assert!(env.run(&["export", id]).success().stdout().contains(&token()));
    let marks: std::collections::BTreeSet<&str> = page
        .split("‹redacted:github")
        .skip(1)
        .map(|rest| rest.split('›').next().unwrap())
        .collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
}

#[test]
fn a_page_named_after_a_prompt_with_a_secret_has_no_part_of_it() {
    let env = keeping();
    // Nothing repeats in it: what repeats is taken for a placeholder.
    let digits = "q7Rk2ZtW9bXc4LmN8vPs3HdF6gJy1TeUaQoBi5MwCzKxV0rEnSlGhDpYuAfOj";
    let long = format!("sk-ant-api03-{}AA", &format!("{digits}{}", digits.to_uppercase())[..93]);
    let prompt = serde_json::json!({"kind": "message.added", "data": {"role": "user",
        "content": format!("use {long} please")}});
    env.record(&["--key", "k"], &[&prompt.to_string()]).success();
    let shared = env.run(&["share", "k"]).success();
    assert!(!shared.stdout().contains("sk-ant"), "{shared:?}");
    let page = fs::read_to_string(shared.stdout().trim()).unwrap();
    assert!(!page.contains(&long[..24]) && page.contains("‹redacted:"), "{page}");
}

#[test]
fn exports_mask_what_was_recorded_before_or_tell_of_it() {
    let env = keeping();
    let prompt = serde_json::json!({"kind": "message.added", "data": {"role": "user",
        "content": format!("use {} please", token())}});
    env.record(&["--key", "k"], &[&prompt.to_string()]).success();
    let bundle = env.run(&["export", "k", "-o", "kept.abide"]).success();
    assert!(!bundle.stderr.contains("secret"), "they are kept: {bundle:?}");
    configure(&env, "");
    for file in ["page.html", "page.md"] {
        let done = env.run(&["export", "k", "-o", file]).success();
        let page = fs::read_to_string(env.project().join(file)).unwrap();
        assert!(!page.contains(&token()) && page.contains("‹redacted:github"), "{page}");
        assert!(done.stderr.contains("masked: github"), "{done:?}");
    }
    for file in ["all.json", "all.jsonl", "all.abide"] {
        let done = env.run(&["export", "k", "-o", file]).success();
        assert!(done.stderr.contains("secrets that were recorded before"), "{done:?}");
        assert!(done.stderr.contains("github"), "{done:?}");
    }
    // Elsewhere a bundle with secrets is taken only on request.
    let other = TestEnvironment::new();
    fs::copy(env.project().join("kept.abide"), other.project().join("kept.abide")).unwrap();
    for args in [&["import", "kept.abide"][..], &["import", "--dry-run", "kept.abide"]] {
        let refused = other.run(args).failure(1);
        assert!(refused.stderr.contains("it has secrets") && refused.stderr.contains("github"));
        assert!(refused.stderr.contains("--keep-secrets"), "{refused:?}");
    }
    assert_eq!(other.run(&["history", "--json"]).stdout().trim(), "[]");
    other.run(&["import", "--keep-secrets", "kept.abide"]).success();
    assert!(other.run(&["export", "k"]).success().stdout().contains(&token()));
    // So is a session of another store.
    let third = env.path("third");
    let third = third.to_str().unwrap();
    let refused = env.run(&["copy", "k", "--to", third]).failure(1);
    assert!(refused.stderr.contains("it has secrets"), "{refused:?}");
    env.run(&["copy", "k", "--to", third, "--keep-secrets"]).success();
}

#[test]
fn files_are_scanned_and_no_secret_is_printed() {
    let env = TestEnvironment::new();
    let project = env.project();
    let write = |path: &str, bytes: &[u8]| {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("log/a.txt", format!("x{}x\n one {} two\n", " ".repeat(70_000), token()).as_bytes());
    let escaped = token().replace('g', "\\u0067");
    write("log/b.jsonl", format!("{{\"a\":\"{escaped}\"}}\nnot json {}\n", token()).as_bytes());
    write("log/c.bin", &[0xff, 0xfe, 0, 1]);
    write(".git/config", token().as_bytes());
    let found = env.run(&["secrets", "scan", "."]).failure(1);
    let out = found.stdout();
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains("a.txt: github") && out.contains("b.jsonl: github"), "{out}");
    assert!(out.lines().nth(1).unwrap().ends_with(" 2"), "{out}");
    assert!(!format!("{found:?}").contains(&token()), "{found:?}");
    assert!(found.stderr.contains("2 of 5 files with secrets"), "{found:?}");
    let json = env.run(&["secrets", "scan", "log", "--json"]).failure(1).json_lines();
    assert_eq!((&json[1]["secrets"], &json[0]["schema"]), (&2.into(), &1.into()));
    env.run(&["secrets", "scan", "log/c.bin"]).success();
    env.run(&["secrets", "scan", "none"]).failure(1);
    env.run(&["secrets", "scan"]).failure(2);
}

#[test]
fn a_text_is_masked_and_the_rules_are_listed() {
    let env = TestEnvironment::new();
    let text = format!("export GITHUB_TOKEN={}\nls -l\n", token());
    let masked = run(env.command(&["secrets", "test"]), text.as_bytes()).success();
    assert!(masked.stdout().starts_with("export GITHUB_TOKEN=‹redacted:github"), "{masked:?}");
    assert!(masked.stdout().ends_with("›\nls -l\n"), "{masked:?}");
    let none = run(env.command(&["secrets", "test"]), b"ls -l\n").success();
    assert_eq!((none.stdout(), none.stderr.trim()), ("ls -l\n", "No secret found"));
    let rules = env.run(&["secrets", "rules"]).success();
    assert!(rules.stdout().lines().count() > 300 && rules.stdout().contains("github"));
    assert!(rules.stdout().lines().all(|line| line.split('\t').count() == 2));
}
