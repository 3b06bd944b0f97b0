//! `docs/json.md` against the commands: every field that is printed is on the page, and every field
//! on the page is printed.
//!
//! A new command with `--json` needs a section on the page and a line in [`outputs`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::environment::{HELLO, TestEnvironment};

/// Sections whose command is not run here: it needs a model, a server or an agent. Their examples
/// are checked all the same.
const NOT_RUN: [&str; 6] = [
    "abide enable",
    "abide plan",
    "abide store status, of a server",
    "abide undo --repair",
    "abide erase --dry-run, of a text in files",
    "abide compact, with nothing to do",
];

/// Optional fields that neither an output here nor an example has.
const UNSEEN: [&str; 35] = [
    "abide checkpoint create: dropped",
    "abide checkpoint create: error",
    "abide checkpoint create: pinned",
    "abide checkpoint create: secret_files",
    "abide checkpoint list: error",
    "abide checkpoint list: pinned",
    "abide checkpoint summary: checkpoints[].commit",
    "abide compact --list: keeps",
    "abide compact: keeps",
    "abide copy: error",
    "abide doctor: before",
    "abide doctor: plans",
    "abide doctor: repaired",
    "abide import: brought_back",
    "abide import: from",
    "abide import: here",
    "abide import: kept_erased",
    "abide import: unerased",
    "abide ls: parent",
    "abide record: complete",
    "abide record: error.hint",
    "abide record: partial",
    "abide record: repeated",
    "abide tasks add: tasks[].reason",
    "abide tasks import: parent",
    "abide tasks: agent_session",
    "abide tasks: dependency_types",
    "abide tasks: document_texts",
    "abide tasks: documents",
    "abide tasks: ended_at",
    "abide tasks: foreign",
    "abide tasks: parent",
    "abide tasks: reason",
    "abide tasks: result",
    "abide tasks: result_value",
];

/// Commands whose JSON is not abide's own: recorded events, requests to a model, a JSON Schema.
const OTHERS: [&str; 3] = ["abide show", "abide tail", "abide schema"];

/// A field of a section.
#[derive(Debug)]
struct PageField {
    /// The words of its type.
    kind: String,
    optional: bool,
}

/// The fields of an object, by name; those of an inner object have its name and a dot in front.
type PageFields = BTreeMap<String, PageField>;

struct JsonPage {
    /// The commands that print what the section of another one says.
    also: String,
    sections: BTreeMap<String, PageFields>,
    /// Fields by event, for a stream of them.
    events: BTreeMap<String, BTreeMap<String, PageFields>>,
    examples: Vec<(String, Value)>,
}

impl JsonPage {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
        let text = fs::read_to_string(path).unwrap();
        let also = text.lines().filter(|line| line.starts_with("Also: ")).collect();
        let mut page =
            Self { also, sections: BTreeMap::new(), events: BTreeMap::new(), examples: Vec::new() };
        for section in text.split("\n### ").skip(1) {
            let (title, body) = section.split_once('\n').unwrap();
            let title = title.replace('`', "");
            let body = body.split("\n## ").next().unwrap();
            for row in body.lines().filter(|line| line.starts_with("| ")) {
                let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
                let [first, second, _] = cells[..] else { panic!("{title}: {row}") };
                if matches!(first, "Field" | "Event" | "---") {
                    continue;
                }
                if body.contains("| Event |") {
                    let fields = second.split(", ").filter(|word| !word.is_empty());
                    let fields = fields.map(|field| page_field(field, "any"));
                    let events = page.events.entry(title.clone()).or_default();
                    events.insert(first.trim_matches('`').to_owned(), fields.collect());
                } else {
                    let (name, field) = page_field(first, second);
                    let fields = page.sections.entry(title.clone()).or_default();
                    assert!(fields.insert(name, field).is_none(), "{title}: {first} stands twice");
                }
            }
            for block in body.split("```json\n").skip(1) {
                let block = block.split("\n```").next().unwrap();
                let values = serde_json::Deserializer::from_str(block).into_iter::<Value>();
                for value in values {
                    let value = value.unwrap_or_else(|error| panic!("{title}: {error}: {block}"));
                    page.examples.push((title.clone(), value));
                }
            }
        }
        page
    }

    /// Is a command on the page?
    fn names(&self, command: &str) -> bool {
        let mut titles = self.sections.keys().chain(self.events.keys());
        let is_of = |title: &String| {
            title
                .strip_prefix(command)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
        };
        titles.any(is_of) || self.also.contains(&format!("`{command}`"))
    }

    /// Checks a value against a section, and notes the fields seen.
    fn check(&self, title: &str, value: &Value, seen: &mut BTreeSet<String>) {
        if let Value::Array(values) = value {
            return values.iter().for_each(|value| self.check(title, value, seen));
        }
        let object = value.as_object().unwrap_or_else(|| panic!("{title}: {value}"));
        if let Some(events) = self.events.get(title) {
            let event = object["event"].as_str().unwrap();
            let fields = events.get(event);
            let fields = fields.unwrap_or_else(|| panic!("{title} has no event {event}: {value}"));
            let mut object = object.clone();
            assert_eq!(object.remove("schema"), Some(1.into()), "{title}: {value}");
            object.remove("event");
            return self.check_fields(&format!("{title}, {event}"), fields, "", &object, seen);
        }
        let fields = self.sections.get(title);
        let fields = fields.unwrap_or_else(|| panic!("the page has no section {title}"));
        self.check_fields(title, fields, "", object, seen);
    }

    fn check_fields(
        &self,
        title: &str,
        fields: &PageFields,
        prefix: &str,
        object: &Map<String, Value>,
        seen: &mut BTreeSet<String>,
    ) {
        for (name, value) in object {
            let path = format!("{prefix}{name}");
            let field = fields.get(&path).unwrap_or_else(|| {
                panic!("{title}: the field {path} is not on the page docs/json.md: {value}")
            });
            seen.insert(format!("{title}: {path}"));
            let alternatives: Vec<&str> = field.kind.split(" or ").collect();
            if value.is_null() && alternatives.contains(&"null") {
                continue;
            }
            let fits = alternatives
                .iter()
                .any(|kind| self.check_value(title, fields, &path, kind, value, seen));
            assert!(fits, "{title}: {path} is {value}, but the page says {}", field.kind);
        }
        for (path, field) in fields {
            let own = path.strip_prefix(prefix).filter(|rest| !rest.contains('.'));
            if let Some(name) = own
                && !field.optional
            {
                assert!(object.contains_key(name), "{title}: {path} is not printed: {object:?}");
            }
        }
    }

    fn check_value(
        &self,
        title: &str,
        fields: &PageFields,
        path: &str,
        kind: &str,
        value: &Value,
        seen: &mut BTreeSet<String>,
    ) -> bool {
        if let Some(each) = kind.strip_prefix("list of ") {
            let each = each.trim_end_matches('s');
            return value.as_array().is_some_and(|values| {
                let path = format!("{path}[]");
                values.iter().all(|value| self.check_value(title, fields, &path, each, value, seen))
            });
        }
        if let Some(each) = kind.strip_prefix("map of ") {
            let each = each.trim_end_matches('s');
            return value.as_object().is_some_and(|values| {
                values
                    .values()
                    .all(|value| self.check_value(title, fields, path, each, value, seen))
            });
        }
        if let Some(name) = kind.strip_prefix('[') {
            let name = name.split(']').next().unwrap();
            self.check(name, value, seen);
            return value.is_object();
        }
        match kind.trim_end_matches('s') {
            "any" => true,
            "string" => value.is_string(),
            "number" => value.is_number(),
            "true" | "false" => value.is_boolean(),
            "list" => value.is_array(),
            "pair" => value.as_array().is_some_and(|pair| pair.len() == 2),
            "map" => value.is_object(),
            "time" => value.as_str().is_some_and(|text| text.parse::<abide::Timestamp>().is_ok()),
            "id" => value.as_str().is_some_and(|text| text.parse::<abide::SessionId>().is_ok()),
            "object" => {
                let Some(object) = value.as_object() else { return false };
                self.check_fields(title, fields, &format!("{path}."), object, seen);
                true
            }
            _ => panic!("{title}: {path} has the type {kind}, which this test does not know"),
        }
    }
}

/// A field as the table has it: `name` in backticks and its type, with `, optional` behind.
fn page_field(name: &str, kind: &str) -> (String, PageField) {
    let may_miss = name.ends_with('?') || kind.ends_with(", optional");
    let name = name.trim_end_matches('?').trim_matches('`').to_owned();
    let kind = kind.trim_end_matches(", optional").to_owned();
    (name, PageField { kind, optional: may_miss })
}

/// A session that has something of everything.
const LINES: &str = r#"{"kind":"model.configured","data":{"model":"m","window":1000}}
{"kind":"turn.started","data":{"agent":"coder"}}
{"kind":"message.added","data":{"role":"user","content":"say hello to the parser"}}
{"kind":"api.called","data":{"call":"r1","model":"m"}}
{"kind":"api.finished","data":{"call":"r1","model":"m","usage":{"input_tokens":10,"output_tokens":5}}}
{"kind":"message.added","data":{"role":"assistant","content":"hello hello hello, says the parser to whoever asks it politely"}}
{"kind":"tool.called","data":{"call":"c1","name":"write","arguments":{}}}
{"kind":"file.touched","data":{"path":"a.rs","op":"write"}}
{"kind":"tool.finished","data":{"call":"c1","result":"ok"}}
{"kind":"artifact.recorded","data":{"name":"tests","kind":"test","command":"cargo test","exit":0,"counts":{"passed":1}}}
{"kind":"dependencies.resolved","data":{"manager":"cargo","lockfile":"Cargo.lock","packages":{"a":"1"}}}
{"kind":"git.observed","data":{"branch":"main"}}
{"kind":"limit.observed","data":{"name":"tokens","limit":10,"remaining":3}}
{"kind":"turn.finished","data":{"status":"done","usage":{"output_tokens":2}}}
{"kind":"task.created","data":{"task":"T1","title":"one","check":"true"}}
{"kind":"task.created","data":{"task":"T2","title":"two","depends":["T1"],"details":"more"}}
{"kind":"task.status","data":{"task":"T1","status":"implementing"}}
{"kind":"turn.started","data":{"agent":"coder"}}
{"kind":"tool.called","data":{"call":"c2","name":"wait"}}
{"kind":"message.added","data":{"role":"user","content":"and another word"}}
{"kind":"message.added","data":{"role":"assistant","content":"there it is"}}"#;

/// Runs every command, and gives what it prints by the section that describes it.
fn outputs() -> Vec<(&'static str, Vec<Value>)> {
    let env = TestEnvironment::new();
    let mut all = Vec::new();
    let mut add = |section: &'static str, args: &[&str]| {
        let done = env.run(args);
        assert!(matches!(done.code, 0 | 1), "{args:?}: {done:?}");
        let values = serde_json::Deserializer::from_slice(&done.out).into_iter::<Value>();
        let values: Vec<Value> = values.map(Result::unwrap).collect();
        assert!(!values.is_empty(), "{args:?}: {done:?}");
        all.push((section, values.clone()));
        values
    };
    fs::write(env.project().join("a.rs"), "fn a() {}\n").unwrap();
    env.git(&env.project(), &["init", "-q"]);
    let made = add("abide new", &["new", "--json", "--title", "Fix the parser", "--key", "k"]);
    let session = made[0]["session"].as_str().unwrap().to_owned();
    let id = session.as_str();
    let lines: Vec<&str> = LINES.lines().collect();
    let recorded = env.record(&["-s", id], &lines).success().json_lines();
    let bad = [r#"{"kind":"mesage.added","data":{}}"#, r#"{"kind":"log.recorded","data":{}}"#, "{"];
    let refused = env.record(&["--key", "other"], &bad).failure(1).json_lines();
    env.record(&["--key", "other"], &[HELLO]).success();

    add("abide ls", &["ls", "--json"]);
    add("abide ls", &["search", "--json", "hello"]);
    add("abide ls", &["ls", "--json", "--file", "a.rs"]);
    add("abide usage", &["usage", "--json", "--check"]);
    add("abide status", &["status", "--json"]);
    add("abide status ID", &["status", id, "--json"]);
    add("abide status --disk", &["status", "--disk", "--json"]);
    add("abide state", &["state", id, "--json"]);
    add("abide state", &["state", id, "usage", "--json"]);
    add("abide store status", &["store", "status", "--json"]);
    add("abide context --stats", &["context", "--session", id, "--stats", "--json"]);

    add("abide checkpoint create", &["save", "-s", id, "--json"]);
    let write = |name: &str, text: &str| fs::write(env.project().join(name), text).unwrap();
    write("a.rs", "fn b() {}\n");
    write("b.rs", "fn b() {}\n");
    write(".gitignore", "state.db\n");
    write("state.db", "x");
    add("abide checkpoint create", &["checkpoint", "create", id, "--label", "two", "--json"]);
    add("abide save, of unchanged files", &["save", "-s", id, "--json"]);
    add("abide checkpoint list", &["saves", "--session", id, "--json"]);
    add("abide checkpoint list", &["checkpoint", "show", "2", "--session", id, "--json"]);
    add("abide checkpoint files", &["checkpoint", "files", "2", "--session", id, "--json"]);
    add("abide checkpoint diff", &["diff", "1", "2", "--session", id, "--json"]);
    add("abide checkpoint summary", &["checkpoint", "summary", "--session", id, "--json"]);
    add("abide rewind --dry-run", &["rewind", "1", "-s", id, "--json", "--dry-run"]);
    add("abide rewind", &["rewind", "1", "-s", id, "--json", "--yes"]);
    add("abide rewind", &["undo", "-s", id, "--yes", "--json"]);
    add("abide rewind", &["redo", "-s", id, "--yes", "--json"]);
    add("abide rewind", &["undo", "-s", id, "--yes", "--json"]);
    let compact = ["compact", "--session", id, "--keep", "1", "--json"];
    add("abide compact", &[&compact[..], &["--dry-run"]].concat());
    add("abide compact", &compact);
    add("abide compact --list", &["compact", "--session", id, "--list", "--json"]);
    add("abide undo, of a compaction", &["undo", "-s", id, "--compaction", "--yes", "--json"]);
    add("abide redo, of a compaction", &["redo", "-s", id, "--json"]);

    add("abide tasks", &["tasks", "--session", id, "--json"]);
    add("abide tasks", &["tasks", "show", "T1", "--session", id, "--json"]);
    add("abide tasks add", &["tasks", "add", "three", "--session", id, "--json"]);
    add("abide tasks add", &["tasks", "set", "T1", "complete", "--session", id, "--json"]);
    add("abide tasks add", &["tasks", "depend", "T2", "--off", "T1", "--session", id, "--json"]);
    write("notes.md", "notes\n");
    let document = ["tasks", "document", "T2", "notes.md", "--session", id, "--json"];
    add("abide tasks add", &document);
    write("PLAN.md", "# Plan\n\n- [ ] one\n- [ ] two\n");
    add("abide tasks import", &["tasks", "import", "PLAN.md", "--json", "--dry-run"]);
    add("abide tasks import", &["tasks", "import", "PLAN.md", "--json"]);
    add("abide run --dry-run", &["run", "--plan", "PLAN.md", "--dry-run", "--json", "--", "true"]);

    let forked = add("abide fork", &["fork", "-s", id, "--json", "--title", "Another way"]);
    let forked = forked[0]["session"].as_str().unwrap().to_owned();
    add("abide rename", &["rename", "-s", &forked, "Yet another way", "--json"]);
    env.run(&["export", id, "--format", "bundle", "-o", "s.abide"]).success();
    let other = env.path("elsewhere");
    fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    env.run(&["init", "--store", other]).success();
    let kept = env.path("home/.claude/projects/-p");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("11111111-2222-4333-8444-555555555555.jsonl"), "{\"type\":\"new-sort\"}\n")
        .unwrap();
    add("abide import, of agents", &["import", "--json"]);
    add("abide import", &["import", "s.abide", "--json"]);
    add("abide import", &["import", "s.abide", "--json", "--store", other]);
    add("abide copy", &["copy", "--to", other, "--all", "--json"]);

    add("abide run", &["run", "--json", "--", "sh", "-c", "echo hi; echo no >&2"]);
    add("abide doctor", &["doctor", "--json"]);
    let token = format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX");
    let kept = env.project().join("kept");
    fs::write(&kept, format!("export GITHUB_TOKEN={token}\n")).unwrap();
    add("abide secrets scan", &["secrets", "scan", kept.to_str().unwrap(), "--json"]);
    add("abide erase --dry-run", &["erase", "-s", id, "@5", "--json", "--dry-run"]);
    add("abide erase", &["erase", "-s", id, "@5", "--json", "--yes"]);
    add("abide cleanup --dry-run", &["cleanup", "--keep", "1", "--dry-run", "--json"]);
    add("abide cleanup", &["cleanup", "--keep", "1", "--yes", "--json"]);
    add("An error", &["show", "nosuch", "--json"]);
    all.push(("abide record", [recorded, refused].concat()));
    all
}

#[test]
fn every_output_is_as_the_page_says() {
    let page = JsonPage::read();
    let mut seen = BTreeSet::new();
    let mut run = BTreeSet::new();
    for (section, values) in outputs() {
        for value in &values {
            // The plan comes before what was done.
            let is_plan = section == "abide rewind" && value.get("rewind").is_none();
            let section = if is_plan { "abide rewind --dry-run" } else { section };
            page.check(section, value, &mut seen);
        }
        run.insert(section);
    }
    for (section, example) in &page.examples {
        page.check(section, example, &mut seen);
    }
    let titles = page.sections.keys().chain(page.events.keys()).map(String::as_str);
    for title in titles.filter(|title| title.starts_with("abide ")) {
        assert!(run.contains(title) || NOT_RUN.contains(&title), "{title} is not run");
        assert!(page.examples.iter().any(|(of, _)| of == title), "{title} has no example");
    }
    let mut unseen = BTreeSet::new();
    for (title, fields) in &page.sections {
        let paths = fields.keys().map(|path| format!("{title}: {path}"));
        unseen.extend(paths.filter(|path| !seen.contains(path)));
    }
    let unseen: Vec<_> = unseen.iter().filter(|path| !UNSEEN.contains(&path.as_str())).collect();
    assert!(unseen.is_empty(), "fields on the page that nothing prints: {unseen:#?}");
}

/// The commands of a help text.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let words = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let words = words.filter_map(|line| line.split([' ', ',']).next());
    words.filter(|word| !matches!(*word, "abide" | "help")).map(str::to_owned).collect()
}

#[test]
fn every_command_with_json_is_on_the_page() {
    let env = TestEnvironment::bare();
    let page = JsonPage::read();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let mut found = BTreeSet::new();
    while let Some(words) = open.pop() {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        let done = env.run(&args);
        // A word of an example is no command.
        if done.code != 0 {
            continue;
        }
        let help = done.stdout();
        if words.len() < 2 && help.contains("<COMMAND>") || help.contains("[COMMAND]") {
            open.extend(subcommands(help).into_iter().map(|word| [&words[..], &[word]].concat()));
        }
        if help.lines().any(|line| line.trim_start().starts_with("--json")) {
            found.insert(format!("abide {}", words.join(" ")));
        }
    }
    assert!(found.len() > 20, "{found:?}");
    let missing = found.iter().filter(|name| !page.names(name));
    let missing: Vec<_> = missing.filter(|name| !OTHERS.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "these have --json and no section in docs/json.md: {missing:?}");
}

#[test]
fn an_error_is_an_object_with_a_code_from_the_list() {
    let env = TestEnvironment::new();
    let error = |args: &[&str], code: i32| {
        let done = env.run(args).failure(code);
        let lines = done.json_lines();
        assert_eq!(lines.len(), 1, "{done:?}");
        assert_eq!(lines[0]["schema"], 1);
        assert!(done.stderr.contains("rror: "), "{done:?}");
        lines[0]["error"].clone()
    };
    let none = error(&["show", "--json"], 1);
    assert_eq!(none["code"], "not_found", "{none}");
    env.record(&["--key", "k"], &[HELLO]).success();
    let missing = error(&["show", "nosuch", "--json"], 1);
    assert_eq!(missing["code"], "not_found");
    assert!(missing["message"].as_str().unwrap().contains("nosuch"), "{missing}");
    assert!(missing["hint"].as_str().unwrap().contains("newest sessions"), "{missing}");
    assert_eq!(error(&["tail", "--json", "--no-such-option"], 2)["code"], "usage");
    assert_eq!(error(&["undo", "--json", "--yes"], 1)["code"], "nothing_to_do");
    assert_eq!(error(&["status", "--json", "--store", "/nonexistent"], 1)["code"], "no_store");
    // Without `--json`, and behind `--`, there is none.
    assert_eq!(env.run(&["show", "nosuch"]).failure(1).stdout(), "");
    assert_eq!(env.run(&["run", "--no-such", "--", "x", "--json"]).failure(2).stdout(), "");
}
