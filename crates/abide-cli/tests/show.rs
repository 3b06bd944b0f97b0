//! `show`, and the exports that people read.

use std::fs;
use std::path::Path;

use abide::EventRange;
use abide_transcript::parse;

use crate::environment::{HELLO, TestEnvironment};
use crate::terminal::on_terminal;

const STORY: [&str; 17] = [
    r#"{"kind":"message.added","data":{"role":"user","content":"The parser drops\nthe last line."}}"#,
    r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
    r#"{"kind":"turn.decided","data":{"selected":"coder","reason":"It is a bug."}}"#,
    r#"{"kind":"turn.finished","data":{"status":"done"}}"#,
    r#"{"kind":"task.created","data":{"task":"T1","title":"Fix it"}}"#,
    r#"{"kind":"task.created","data":{"task":"T1.S1","title":"Test it","parent":"T1"}}"#,
    r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
    r#"{"kind":"message.added","task":"T1","data":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I run `the tests`."},{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"cargo test"}}]}}"#,
    r#"{"kind":"tool.called","task":"T1","data":{"call":"c1","name":"bash","arguments":{"command":"cargo test"}}}"#,
    r#"{"kind":"tool.finished","task":"T1","data":{"call":"c1","ok":false,"result":"1 passed\n1 failed\n"}}"#,
    r#"{"kind":"file.touched","data":{"path":"src/parser.rs","op":"write"}}"#,
    r#"{"kind":"tool.called","data":{"call":"c2","name":"web","arguments":{"url":"https://e.f"},"observed":true}}"#,
    r#"{"kind":"task.status","data":{"task":"T1","status":"complete"}}"#,
    r#"{"kind":"turn.finished","data":{"status":"done","usage":{"input_tokens":1200,"output_tokens":34}}}"#,
    r#"{"kind":"message.added","lane":"review","data":{"role":"assistant","content":"Good."}}"#,
    r#"{"kind":"x.own","data":{"n":123456789012345678901234567890}}"#,
    r#"{"kind":"session.status","data":{"status":"completed","summary":"Fixed."}}"#,
];

fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.record(&["--key", "s", "--title", "Fix the parser"], &STORY).success();
    env
}

/// What differs from run to run made the same.
fn filters(env: &TestEnvironment) -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(
        &format!("(/private)?{}", env.path("").display().to_string().trim_end_matches('/')),
        "[TEMP]",
    );
    settings.add_filter("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[ID]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[TIME]");
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[DAY] [CLOCK]");
    settings.add_filter(r"\d\d:\d\d:\d\d", "[CLOCK]");
    settings.add_filter(r"\(process \d+ on [^)]+\)", "(process [N] on [HOST])");
    settings.add_filter(r"\b\d+(\.\d)?s\b", "[SPAN]");
    settings.add_filter(r#","who":"[^"]+""#, "");
    settings.add_filter(r"TASK \w{6}", "TASK [SHORT]");
    settings.add_filter(r"(ended · |\()[0-9a-z]{6}\b", "$1[SHORT]");
    settings.add_filter(r" [A-Za-z0-9_-]{20}\n", " [SUM]\n");
    settings.add_filter(r" [A-Za-z0-9_-]{20}$", " [SUM]");
    settings.bind_to_scope()
}

#[test]
fn show_tells_the_story() {
    let env = recorded();
    let _filters = filters(&env);
    let done = env.run(&["show"]).success();
    insta::assert_snapshot!(done.stdout(), @r#"
    Fix the parser
    ended · [SHORT] · [DAY] [CLOCK] · [SPAN]
    2 turns · 3 messages · 2 calls (1 failed) · 1,200 tokens in, 34 out
      T1 Fix it  complete
        T1.S1 Test it  planned

    User  [CLOCK]  @3
      The parser drops
      the last line.

    ━━ Turn 1: arbiter  [CLOCK]  @4
      Decided: coder, It is a bug.
      Turn: done, [SPAN]

      Task T1 created: Fix it
      Task T1.S1 created: Test it

    ━━ Turn 2: coder  [CLOCK]  @9

    Assistant  [CLOCK]  @10  task T1
      (thinking) Hm.
      I run `the tests`.

      ✗ bash cargo test
        1 passed
        1 failed
      File written: src/parser.rs
      ? web https://e.f  observed, outcome unknown
      Task T1 complete
      Turn: done, [SPAN], 1,200 tokens in, 34 out

    ┌ review
    │ Assistant  [CLOCK]  @17
    │   Good.
    │

      x.own: n: 123456789012345678901234567890

    Session completed  [CLOCK]  @19
      Fixed.
    "#);
    assert!(done.stderr.ends_with(" (the latest)\n"), "{done:?}");
}

#[test]
fn show_tells_one_turn_or_one_task() {
    let env = recorded();
    let _filters = filters(&env);
    insta::assert_snapshot!(env.run(&["show", "--turn", "1"]).success().stdout(), @r#"
    ━━ Turn 1: arbiter  [CLOCK]  @4
      Decided: coder, It is a bug.
      Turn: done, [SPAN]
    "#);
    insta::assert_snapshot!(env.run(&["show", "--task", "T1"]).success().stdout(), @r#"
      Task T1 created: Fix it

    Assistant  [CLOCK]  @10  task T1
      (thinking) Hm.
      I run `the tests`.

      ✗ bash cargo test
        1 passed
        1 failed
      Task T1 complete
    "#);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let lines = env.run(args).success().json_lines();
        lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    // Two events come before the first of the story.
    assert_eq!(seqs(&["show", "--turn", "1", "--json"]), [4, 5, 6]);
    assert_eq!(seqs(&["show", "--turn", "2", "--json"]), (9..=16).collect::<Vec<_>>());
    assert_eq!(seqs(&["show", "--task", "T1", "--json"]), [7, 10, 11, 12, 15]);
    assert_eq!(seqs(&["show", "--task", "T1.S1", "--json"]), [8]);
    assert_eq!(seqs(&["show", "--task", "T1", "--turn", "2", "--json"]), [10, 11, 12, 15]);
    assert_eq!(seqs(&["show", "--json"]).len(), 20);
}

#[test]
fn what_is_not_there_is_said_with_what_there_is() {
    let env = recorded();
    let said = |args: &[&str]| {
        let done = env.run(args).failure(1);
        match args.contains(&"--json") {
            true => assert!(done.json_lines()[0]["error"]["code"].is_string(), "{done:?}"),
            false => assert_eq!(done.stdout(), ""),
        }
        done.stderr.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(said(&["show", "--turn", "7"]), @r#"
    Error: there is no turn 7
    Hint: the last turn of this session is 2
    "#);
    insta::assert_snapshot!(said(&["show", "--turn", "7", "--all"]), @r#"
    Error: there is no turn 7
    Hint: the last turn of this session is 2
    "#);
    insta::assert_snapshot!(said(&["show", "--task", "T9"]), @r#"
    Error: there is no task T9
    Hint: the tasks are T1, T1.S1
    "#);
    insta::assert_snapshot!(said(&["show", "--task", "T1", "--turn", "1", "--json"]), @r#"Error: task T1 has nothing in turn 1"#);
    env.record(&["--new"], &[r#"{"kind":"x.a","data":{}}"#]).success();
    insta::assert_snapshot!(said(&["show", "--turn", "1"]), @r#"
    Error: there is no turn 1
    Hint: this session has no turns
    "#);
    insta::assert_snapshot!(said(&["show", "--task", "T1"]), @r#"
    Error: there is no task T1
    Hint: this session has no tasks
    "#);
}

#[test]
fn what_a_rewind_took_back_is_left_out_or_marked() {
    let env = TestEnvironment::new();
    let message = |text: &str| {
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
    };
    let turn = r#"{"kind":"turn.started","data":{"agent":"a"}}"#;
    let lines = [message("first"), turn.to_owned(), message("wrong way")];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "s"], &lines).success();
    env.record(&["--key", "s"], &[r#"{"kind":"session.rewound","data":{"to":3}}"#]).success();
    env.record(&["--key", "s"], &[turn, &message("right way")]).success();
    let live = env.run(&["show"]).success();
    assert!(live.stdout().contains("first") && live.stdout().contains("right way"), "{live:?}");
    assert!(!live.stdout().contains("wrong way"), "{live:?}");
    assert!(live.stdout().contains("Turn 2: a"), "{live:?}");
    let all = env.run(&["show", "--all"]).success();
    let marked: Vec<_> =
        all.stdout().lines().filter(|line| line.contains("(taken back by a rewind)")).collect();
    // The turn and the message; with -v the writers' coming and going too.
    assert_eq!(marked.len(), 2, "{all:?}");
    let verbose = env.run(&["show", "--all", "-v"]).success();
    assert_eq!(verbose.stdout().matches("(taken back by a rewind)").count(), 4, "{verbose:?}");
    assert!(all.stdout().contains("wrong way"));
    let gone = env.run(&["show", "--turn", "1"]).failure(1);
    assert!(gone.stderr.contains("`--all` shows rewound events"), "{gone:?}");
    let gone = env.run(&["show", "--turn", "1", "--all"]).success();
    assert!(
        gone.stdout().contains("wrong way") && !gone.stdout().contains("right way"),
        "{gone:?}"
    );
    for format in ["markdown", "html"] {
        let page = env.run(&["export", "--format", format]).success();
        assert!(
            page.stdout().contains("right way") && !page.stdout().contains("wrong way"),
            "{page:?}"
        );
    }
    // The transcript has everything.
    let transcript = env.run(&["export", "--format", "transcript"]).success();
    assert!(transcript.stdout().contains("wrong way"));
}

#[test]
fn the_transcript_gives_every_event_back() {
    let env = recorded();
    env.record(&["--key", "s"], &[
        "{\"kind\":\"message.added\",\"data\":{\"role\":\"@9 x\",\"content\":\"=== RESULT ===\\n@5 {}\\r\\n\\u001b[2J\u{202e}\\u00e9\"}}",
        r#"{"kind":"x.raw","data":{"a":1e999,"a":"\ud800\nb"}}"#,
    ]).success();
    env.run(&["export", "--format", "transcript", "-o", "out.task"]).success();
    let events = parse(&fs::read(env.project().join("out.task")).unwrap()).unwrap();
    let store = abide::Store::open(env.project()).unwrap();
    let view = store.view(&abide::SessionRef::Latest).unwrap();
    let recorded: Vec<_> = view.events(EventRange::ALL).map(Result::unwrap).collect();
    assert_eq!(events, recorded);
    let _filters = filters(&env);
    let text = env.run(&["export", "--format", "transcript"]).success();
    let head: Vec<_> = text.stdout().lines().take(30).collect();
    insta::assert_snapshot!(head.join("\n"), @r#"
    === TASK [SHORT] ===
    Format: abide transcript 2
    Id: [ID]
    Created: [TIME]
    Title: Fix the parser
    Workspace: [TEMP]/project
    Key: s

    === REQUEST ===
    User:
        The parser drops
        the last line.

    @1 [TIME] session.created {"session":"[ID]","title":"Fix the parser","workspace":"[TEMP]/project","key":"s"}
    @2 [TIME] writer.opened {"epoch":1,"by":"abide (process [N] on [HOST]) since [TIME]"}
    @3 [TIME] message.added {"role":"user","content":<text>}
    @end 3 {"section":"request","created":"[TIME]"} [SUM]

    === EXECUTION ===

    --- Turn 1: arbiter ---
    Selected: coder
    Reason: It is a bug.
    Duration: [SPAN]
    [Content]

    @4 [TIME] turn.started {"agent":"arbiter","role":"arbiter"}
    @5 [TIME] turn.decided {"selected":"coder","reason":"It is a bug."}
    @6 [TIME] turn.finished {"status":"done"}
    @end 6 - [SUM]
    "#);
}

#[test]
fn a_turn_that_another_lane_calls_finished_goes_on() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"turn.started","data":{"agent":"one"}}"#,
        r#"{"kind":"turn.started","lane":"b","data":{"agent":"two"}}"#,
        r#"{"kind":"turn.finished","data":{"turn":2}}"#,
        r#"{"kind":"message.added","lane":"b","data":{"role":"assistant","content":"Still."}}"#,
    ];
    env.record(&[], &lines).success();
    let shown = env.run(&["show", "--turn", "2"]).success();
    assert!(shown.stdout().contains("Still."), "{shown:?}");
}

#[test]
fn markdown_reads_well() {
    let env = recorded();
    let _filters = filters(&env);
    insta::assert_snapshot!(env.run(&["export", "--format", "markdown"]).success().stdout(), @r#"
    # Fix the parser

    | | |
    | --- | --- |
    | Session | [ID] ([SHORT]) |
    | Status | completed |
    | Workspace | [TEMP]/project |
    | Key | s |
    | Created | [DAY] [CLOCK] UTC |
    | Duration | [SPAN] |
    | Extent | 2 turns, 3 messages, 2 calls (1 failed), 1,200 tokens in, 34 out |

    Fixed.

    ## Tasks

    - [x] T1 Fix it (complete)
      - [ ] T1.S1 Test it (planned)

    ## Files modified

    - `src/parser.rs` written

    ## What happened

    **User**

    The parser drops
    the last line.

    ### Turn 1: arbiter

    **Decided** coder: It is a bug.

    *Turn 1 done, [SPAN]*

    Task `T1` created: Fix it

    Task `T1.S1` created: Test it

    ### Turn 2: coder

    **Assistant**

    *Thinking*

    ```text
    Hm.
    ```

    I run `the tests`.

    ✗ **bash** `cargo test`

    ```text
    1 passed
    1 failed
    ```

    File `src/parser.rs` written

    ◌ **web** `https://e.f` (observed, outcome unknown)

    Task `T1` complete

    *Turn 2 done, [SPAN], 1,200 tokens in, 34 out*

    *Lane review*

    **Assistant**

    Good.

    *Main lane*

    x.own: n: 123456789012345678901234567890

    **Session completed**

    Fixed.
    "#);
}

#[test]
fn a_page_stands_by_itself() {
    let env = recorded();
    env.record(&["--key", "s"], &[r#"{"kind":"message.added","data":{"role":"<img src=x onerror=alert(1)>","content":"</style><script>alert(1)</script>"}}"#]).success();
    env.run(&["export", "--format", "html", "-o", "out.html"]).success();
    let page = fs::read_to_string(env.project().join("out.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for part in [
        "<title>Fix the parser</title>",
        "id=\"e9\"",
        "href=\"#e9\"",
        "for=\"no-tools\"",
        "&lt;script&gt;",
        "1,200 tokens in, 34 out",
        "<code>src/parser.rs</code>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for active in ["<script", "<img src=x", "<link", "<iframe", "src=\"http", "@import", "url("] {
        assert!(!page.contains(active), "{active}");
    }
}

#[test]
fn a_damaged_session_is_shown_as_far_as_it_can_be_read() {
    let env = recorded();
    let segment = env.session_dir().join("journal/00000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace("I run `the tests`", "I ran `the tests`")).unwrap();
    let shown = env.run(&["show"]).success();
    assert!(shown.stdout().contains("Fixed."), "{shown:?}");
    assert!(!shown.stdout().contains("the tests"), "{shown:?}");
    assert!(shown.stderr.contains("Warning: ") && shown.stderr.contains("event 10"), "{shown:?}");
    let page = env.run(&["export", "--format", "html"]).failure(1);
    assert!(page.stdout().ends_with("</html>\n"));
}

#[test]
fn on_a_terminal_there_are_colours_and_a_pager() {
    let env = recorded();
    env.record(&["--key", "s"], &["{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"\\u001b[2J\u{202e}x\"}}"]).success();
    let Some(plain) = on_terminal(&env, "show; true") else {
        return;
    };
    let text = String::from_utf8(plain.out).unwrap();
    assert!(text.contains("\u{1b}[1;32mUser\u{1b}[0m"), "{text:?}");
    assert!(text.contains("\\u{1b}[2J\\u{202e}x"), "{text:?}");
    assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'), "{text:?}");
    fs::write(env.path("home/pager"), "#!/bin/sh\nsed 's/^/paged: /'\n").unwrap();
    let make = format!("chmod +x {0}; PAGER={0} NO_COLOR=1", env.path("home/pager").display());
    let script = format!("{make} {} show", crate::environment::ABIDE);
    let mut command = env.isolate(std::process::Command::new("script"));
    command.args(["-qec", &script, "/dev/null"]);
    let paged = crate::environment::run(command, b"");
    let text = String::from_utf8(paged.out).unwrap();
    assert!(text.contains("paged: Fix the parser\r\n") && !text.contains('\u{1b}'), "{text:?}");
    // One that is not there is done without.
    let script = format!("PAGER=/no/such/pager {} show", crate::environment::ABIDE);
    let mut command = env.isolate(std::process::Command::new("script"));
    command.args(["-qec", &script, "/dev/null"]);
    let without = crate::environment::run(command, b"");
    assert!(String::from_utf8(without.out).unwrap().contains("Fix the parser"));
}

/// Runs abide on a terminal of this width, with these variables; `None` where there is none.
fn on_wide_terminal(env: &TestEnvironment, width: usize, words: &str) -> Option<String> {
    on_terminal(env, "--version")?;
    let script = format!("stty cols {width}; {words}");
    let mut command = env.isolate(std::process::Command::new("script"));
    command.args(["-qec", &script, "/dev/null"]);
    Some(String::from_utf8(crate::environment::run(command, b"").out).unwrap())
}

#[test]
fn words_are_wrapped_to_the_width_of_the_terminal() {
    let env = TestEnvironment::new();
    let prompt = r#"{"kind":"message.added","data":{"role":"user","content":"- Please make every greeting end with an exclamation mark, 谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢 👩‍👩‍👧 and say **so** in `docs/README.md`."}}"#;
    env.record(&["--key", "s"], &[prompt]).success();
    let abide = crate::environment::ABIDE;
    for width in [60, 100, 200] {
        let Some(text) = on_wide_terminal(&env, width, &format!("NO_COLOR=1 {abide} show s"))
        else {
            return;
        };
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let lines: Vec<_> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
        let columns = |line: &str| unicode_width::UnicodeWidthStr::width(line);
        let widest = lines.iter().map(|line| columns(line)).max().unwrap();
        assert!(widest <= width, "{width}: {lines:#?}");
        // The lines of an item hang under its first.
        let first = lines.iter().position(|line| line.starts_with("  - Please")).unwrap();
        let hangs = lines[first + 1].starts_with("    ") || lines[first].contains("README.md");
        assert!(hangs, "{width}: {lines:#?}");
        assert!(text.contains("👩‍👩‍👧") && text.contains("so in"), "{text}");
    }
    // A terminal that can do nothing gets no sequences, and a pipe whole lines.
    let dumb = on_wide_terminal(&env, 80, &format!("TERM=dumb {abide} show s")).unwrap();
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
    let piped = env.run(&["show", "s"]).success();
    assert!(piped.stdout().lines().any(|line| line.ends_with("in `docs/README.md`.")), "{piped:?}");
}

#[test]
fn an_event_is_shown_with_what_is_around_it() {
    let env = recorded();
    let _filters = filters(&env);
    // The result of the call is part of its entry.
    for event in ["@11", "@12", "11"] {
        let done = env.run(&["show", "s", event, "-C", "1"]).success();
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stdout(), @r"
            Assistant  [CLOCK]  @10  task T1
              (thinking) Hm.
              I run `the tests`.

              ✗ bash cargo test
                1 passed
                1 failed
              File written: src/parser.rs
            ");
        }
    }
    let alone = env.run(&["show", "@13", "-C", "0"]).success();
    assert_eq!(alone.stdout(), "  File written: src/parser.rs\n");
    // What is machinery is shown if it is asked for.
    let writer = env.run(&["show", "s", "@2", "-C", "0"]).success();
    assert!(writer.stdout().contains("Writer opened"), "{writer:?}");
    assert_eq!(env.run(&["show", "s", "@11", "--json"]).success().json_lines()[0]["seq"], 11);
    let said = |args: &[&str], code| env.run(args).failure(code).stderr;
    insta::assert_snapshot!(said(&["show", "s", "@99"], 1), @r"
    Error: there is no event @99
    Hint: the last event of this session is @20
    ");
    insta::assert_snapshot!(said(&["show", "s", "@x"], 2), @r#"
    Error: invalid event "@x" (example: @36)
    Hint: see `abide show --help`
    "#);
    said(&["show", "s", "@12", "--turn", "2"], 2);
    env.record(&["--key", "s"], &[r#"{"kind":"session.rewound","data":{"to":10}}"#]).success();
    insta::assert_snapshot!(said(&["show", "s", "@12"], 1), @r"
    Error: event @12 was rewound
    Hint: `--all` shows rewound events
    ");
    env.run(&["show", "s", "@12", "--all"]).success();
}

#[test]
fn calls_are_shown_alone_or_left_out_and_machinery_on_request() {
    let env = recorded();
    let shown = |args: &[&str]| env.run(args).success().stdout().to_owned();
    let (tools, rest) = (shown(&["show", "s", "--tools"]), shown(&["show", "s", "--no-tools"]));
    assert!(tools.contains("✗ bash cargo test") && !tools.contains("The parser drops"), "{tools}");
    assert!(!rest.contains("cargo test") && rest.contains("The parser drops"), "{rest}");
    let verbose = shown(&["show", "s", "-v"]);
    assert!(verbose.contains("Writer opened") && !rest.contains("Writer opened"), "{verbose}");
    env.run(&["show", "s", "--tools", "--no-tools"]).failure(2);
}

#[test]
fn a_session_is_shared_as_a_page_that_names_no_place_of_this_machine() {
    let env = recorded();
    let project = env.project().canonicalize().unwrap();
    let line = format!(
        r#"{{"kind":"tool.called","data":{{"call":"c9","name":"read","arguments":{{"path":"{}/src/lib.rs"}}}}}}"#,
        project.display()
    );
    let said = format!(
        r#"{{"kind":"message.added","data":{{"role":"user","content":"Look at {}/src/lib.rs"}}}}"#,
        project.display()
    );
    env.record(&["--key", "s"], &[&line, &said]).success();
    let done = env.run(&["share", "s"]).success();
    let path = done.stdout().trim_end();
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("fix-the-parser-") && name.ends_with(".html"), "{done:?}");
    assert!(done.stderr.contains("Nothing was uploaded"), "{done:?}");
    let page = fs::read_to_string(path).unwrap();
    assert!(page.contains("<code>src/lib.rs</code>"), "{page}");
    assert!(page.contains("Look at src/lib.rs"), "{page}");
    assert!(!page.contains(&project.display().to_string()), "{page}");
    env.run(&["share", "s", "-o", "mine.html"]).success();
    assert_eq!(fs::read_to_string(env.project().join("mine.html")).unwrap(), page);
    env.run(&["share", "s", "-o", "no/such/dir.html"]).failure(1);
}

#[test]
fn a_page_has_the_changes_of_the_files() {
    let env = TestEnvironment::new();
    env.record(&["--key", "s"], &[STORY[0]]).success();
    fs::write(env.project().join("a.txt"), "one\ntwo\n").unwrap();
    env.run(&["checkpoint", "create", "-s", "s"]).success();
    fs::write(env.project().join("a.txt"), "one\n2 <b>\n").unwrap();
    fs::write(env.project().join("b.txt"), "new\n").unwrap();
    env.run(&["checkpoint", "create", "-s", "s"]).success();
    let page = env.run(&["export", "s", "--format", "html"]).success();
    let page = page.stdout();
    for part in [
        "2 files +2 −1",
        "<code>a.txt</code> <small><ins>+1</ins> <del>−1</del></small>",
        "<del>- two\n</del><ins>+ 2 &lt;b&gt;\n</ins>",
        "<code>b.txt</code>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn what_was_mistyped_and_what_went_back_is_shown() {
    let env = TestEnvironment::new();
    let id = env.run(&["new"]).success().stdout().trim().to_owned();
    let mistyped = r#"{"kind":"message.added","data":{"role":"user","contents":"a typing error"}}"#;
    env.record(&["-s", &id], &[mistyped]).success();
    std::fs::write(env.project().join("a"), "1").unwrap();
    env.run(&["save"]).success();
    std::fs::write(env.project().join("a"), "2").unwrap();
    env.run(&["rewind", "1", "a", "-y"]).success();
    let shown = env.run(&["show", &id]).success();
    assert!(shown.stdout().contains("contents: a typing error"), "{shown:?}");
    assert!(shown.stdout().contains("Files put back: a\n"), "{shown:?}");
    assert!(!shown.stdout().contains("Rewound"), "{shown:?}");
}

#[test]
fn a_file_is_exported_as_it_is_named() {
    let env = TestEnvironment::new();
    env.record(&["--key", "k"], &[HELLO]).success();
    for (name, begins) in [
        ("a.html", "<!doctype html>"),
        ("a.md", "# "),
        ("a.json", "{\"session\":"),
        ("a.txt", "{\"seq\":1"),
    ] {
        env.run(&["export", "k", "-o", name]).success();
        let text = std::fs::read_to_string(env.project().join(name)).unwrap();
        assert!(text.to_lowercase().starts_with(begins), "{name}: {text:.40}");
    }
    // A form that was asked for is what it is.
    env.run(&["export", "k", "-o", "b.html", "--format", "md"]).success();
    assert!(std::fs::read_to_string(env.project().join("b.html")).unwrap().starts_with("# "));
}

#[test]
fn a_message_is_shown_as_its_newest_version() {
    let env = TestEnvironment::new();
    let message = |text: &str, marks: &str| {
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"{marks}}}}}"#)
    };
    let lines = [
        message("the first try", ""),
        message("between", ""),
        message("the second try", r#","abide":{"replaces":3}"#),
        message("the last try", r#","abide":{"replaces":3}"#),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "s"], &lines).success();
    let ways: [&[&str]; 5] = [
        &["show"],
        &["show", "--all"],
        &["export", "--format", "markdown"],
        &["export", "--format", "html"],
        &["export", "--format", "openai"],
    ];
    for way in ways.into_iter().chain([&["context", "--format", "openai"][..]]) {
        let shown = env.run(way).success();
        let text = shown.stdout();
        assert!(text.contains("the last try") && text.contains("between"), "{way:?}: {text}");
        assert!(!text.contains("the second try"), "{way:?}: {text}");
        // The name of the session is its first prompt, as it is now.
        assert!(!text.contains("the first try"), "{way:?}: {text}");
    }
    // The journal has all of them.
    let all = env.run(&["show", "--json"]).success();
    assert!(all.stdout().contains("the first try") && all.stdout().contains("the second try"));
    let gone = env.run(&["show", "s", "@3"]).failure(1);
    assert!(gone.stderr.contains("the message @3 was replaced"), "{gone:?}");
    assert!(gone.stderr.contains("its newest version is @6"), "{gone:?}");
}
