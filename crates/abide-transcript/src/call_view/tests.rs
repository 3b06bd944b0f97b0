//! What calls show, by tool.

use super::*;

fn view(name: &str, arguments: &str, ok: bool, output: &str) -> CallView {
    let output = CallOutput { text: output.to_owned(), ..CallOutput::default() };
    CallView::of(&TimelineCall {
        workspace: "/w".to_owned(),
        outcome: CallOutcome::Ended { ok, output, millis: None },
        ..TimelineCall::new("c".to_owned(), name.to_owned(), arguments.to_owned())
    })
}

/// The view on a few lines.
fn told(view: &CallView) -> String {
    let mut out = format!("{:?} {} | {}", view.sign, view.target, view.facts.join(", "));
    for block in &view.blocks {
        let text = match block {
            CallViewBlock::Code { language, text } => format!("{language}: {text}"),
            CallViewBlock::Diff(diff) => {
                format!("{}: {}", diff.path, crate::rendering::diff_text(diff))
            }
            CallViewBlock::Fields(fields) => fields
                .iter()
                .map(|field| format!("{}={}", field.name, field.value))
                .collect::<Vec<_>>()
                .join(" "),
            CallViewBlock::Todo(items) => items
                .iter()
                .map(|item| format!("{} {}", item.state.mark(), item.text))
                .collect::<Vec<_>>()
                .join(" "),
            CallViewBlock::Details(fields) => format!("+ {}", fields.len()),
            CallViewBlock::Output(text) => format!("> {text}"),
            CallViewBlock::Aside(text) => format!("({text})"),
            CallViewBlock::Prose(text) => format!("# {text}"),
            CallViewBlock::Image(_) => "image".to_owned(),
        };
        out.push_str(&format!("\n{}", text.trim_end().replace('\n', "⏎")));
    }
    out
}

#[test]
fn commands_show_what_ran_and_how_it_ended() {
    for (name, arguments) in [
        ("Bash", r#"{"command":"cargo test","description":"Run the tests"}"#),
        ("shell", r#"{"command":["bash","-lc","cargo test"]}"#),
        ("exec_command", r#"{"cmd":"cargo test","yield_time_ms":1000}"#),
        ("run_shell_command", r#"{"command":"cargo test"}"#),
        ("execute", r#"{"title":"cargo test"}"#),
    ] {
        let view = view(name, arguments, true, "Exit code 101\n1 failed");
        let told = told(&view);
        let told = told.strip_suffix("\n+ 1").unwrap_or(&told);
        assert_eq!(told, "Bad cargo test | exit 101\n> 1 failed", "{name}");
    }
    assert_eq!(
        told(&view("Bash", r#"{"command":"cat <<E\na\nE"}"#, true, "a\n")),
        "Good cat <<E … | \nsh: $ cat <<E⏎a⏎E\n> a"
    );
}

#[test]
fn edits_show_a_diff() {
    for (name, arguments) in [
        ("Edit", r#"{"file_path":"a.rs","old_string":"x\ny","new_string":"x\nz"}"#),
        ("edit", r#"{"filePath":"a.rs","oldString":"x\ny","newString":"x\nz"}"#),
        (
            "str_replace_based_edit_tool",
            r#"{"command":"str_replace","path":"a.rs","old_str":"x\ny","new_str":"x\nz"}"#,
        ),
        (
            "MultiEdit",
            r#"{"file_path":"a.rs","edits":[{"old_string":"x\ny","new_string":"x\nz"}]}"#,
        ),
        (
            "apply_patch",
            r#"{"input":"*** Begin Patch\n*** Update File: a.rs\n x\n-y\n+z\n*** End Patch"}"#,
        ),
        ("apply_patch", "*** Begin Patch\n*** Update File: a.rs\n x\n-y\n+z\n*** End Patch"),
        (
            "shell",
            r#"{"command":["apply_patch","*** Begin Patch\n*** Update File: a.rs\n x\n-y\n+z\n*** End Patch\n"]}"#,
        ),
    ] {
        let view = view(name, arguments, true, "The file a.rs has been updated.");
        assert_eq!(told(&view), "Good a.rs | +1 −1\na.rs:  x⏎-y⏎+z", "{name}");
    }
    let failed = view(
        "Edit",
        r#"{"path":"a","old_text":"x","new_text":"y"}"#,
        false,
        "<tool_use_error>not found</tool_use_error>",
    );
    assert_eq!(told(&failed), "Bad a | +1 −1\na: -x⏎+y\n> not found");
    assert_eq!(
        told(&view(
            "Write",
            r#"{"file_path":"a.rs","content":"fn a() {}\n"}"#,
            true,
            "File created"
        )),
        "Good a.rs | 1 line\nrs: fn a() {}"
    );
}

#[test]
fn other_tools_show_what_they_are_about() {
    assert_eq!(
        told(&view("Read", r#"{"file_path":"a.rs","offset":10,"limit":5}"#, true, "1\n2")),
        "Good a.rs | lines 10–14, 2 lines\n(1⏎2)"
    );
    assert_eq!(
        told(&view("Grep", r#"{"pattern":"fn","path":"src"}"#, true, "a\nb")),
        "Good fn in src | 2 lines\n> a⏎b"
    );
    assert_eq!(
        told(&view(
            "TodoWrite",
            r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"}]}"#,
            true,
            "ok"
        )),
        "Good  | 1 of 2 items done\n[x] a [~] b"
    );
    assert_eq!(
        told(&view(
            "update_plan",
            r#"{"plan":[{"step":"a","status":"pending"}]}"#,
            true,
            "Plan updated"
        )),
        "Good  | 0 of 1 item done\n[ ] a"
    );
    assert_eq!(
        told(&view("WebFetch", r#"{"url":"https://e.f","prompt":"?"}"#, true, "page")),
        "Good https://e.f | 1 line\n(page)\n+ 1"
    );
    assert_eq!(
        told(&view(
            "Task",
            r#"{"description":"Find","prompt":"Find it","subagent_type":"x"}"#,
            true,
            "**Here**"
        )),
        "Good Find | x\n(Find it)\n# **Here**"
    );
    assert_eq!(
        told(&view(
            "mcp__db__query",
            r#"{"name":"users","limit":3,"where":{"id":1}}"#,
            true,
            r#"{"rows":[{"id":1}]}"#
        )),
        "Good users | \nlimit=3 where=id: 1\n> rows:⏎  - id: 1"
    );
    assert_eq!(told(&view("odd", "free text", true, "")), "Good free text | ");
    assert_eq!(told(&view("none", "{}", true, "")), "Good  | ");
}

#[test]
fn an_output_is_shown_as_a_terminal_leaves_it() {
    for (printed, shown) in [
        ("a\u{1b}[32;1mb\u{1b}[0mc", "abc"),
        ("10%\r50%\rdone\r\nnext", "done\nnext"),
        ("\u{1b}]0;title\u{7}x\u{1b}[2K\u{1b}[1;2Hy", "xy"),
        ("\u{1b}[", ""),
        ("a\u{1b}Zb", "aZb"),
        ("plain", "plain"),
    ] {
        assert_eq!(printed_text(printed), shown, "{printed:?}");
    }
}

#[test]
fn a_tool_that_only_sounds_like_one_that_is_known_shows_its_arguments() {
    for (name, arguments, told_of) in [
        ("db_execute", r#"{"sql":"DROP TABLE users"}"#, "Good DROP TABLE users | "),
        ("send_emails", r#"{"to":"a","body":"b"}"#, "Good  | \nto=a body=b"),
        ("git_fetch", r#"{"remote":"origin"}"#, "Good origin | "),
        ("execute", r#"{"sql":"x","n":1}"#, "Good  | \nsql=x n=1\n+ 2"),
    ] {
        assert_eq!(told(&view(name, arguments, true, "")), told_of, "{name}");
    }
    // What a command prints as JSON is its own.
    let printed = view("Bash", r#"{"command":"curl x"}"#, true, r#"{"code":404,"message":"x"}"#);
    assert_eq!(told(&printed), "Good curl x | \n> code: 404⏎message: x");
    // Only paths are shortened.
    let edit = r#"{"file_path":"/w/a.py","old_string":"\"/w/a\"","new_string":"\"a\""}"#;
    assert_eq!(told(&view("Edit", edit, true, "")), "Good a.py | +1 −1\na.py: -\"/w/a\"⏎+\"a\"");
}
