//! What the documentation shows is what happens: the tour is run, the commands of the README exist,
//! the library's example is its own, the sums of the worked example are computed again, and every
//! test that a page names exists.
//!
//! In a `console` block a line after `$ ` is a command; what follows is its output, stderr
//! included. `…` stands for anything within a line, and alone on a line for any lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use abide::{SessionId, event::ObjectHash};

use crate::environment::{ABIDE, TestEnvironment, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The fenced blocks of a page that are in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}");
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == open {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push(block.join("\n"));
        } else if line.starts_with("```") {
            lines.by_ref().find(|line| *line == "```");
        }
    }
    found
}

/// A command and the lines it is said to print.
struct Shown {
    command: String,
    output: Vec<String>,
}

fn tour() -> Vec<Shown> {
    let mut tour: Vec<Shown> = Vec::new();
    for line in blocks(&page("docs/tour.md"), "console").iter().flat_map(|block| block.lines()) {
        match (line.strip_prefix("$ "), tour.last_mut()) {
            (Some(command), _) => {
                tour.push(Shown { command: command.to_owned(), output: Vec::new() });
            }
            (None, Some(shown)) => shown.output.push(line.to_owned()),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    tour
}

fn line_fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

fn fits(pattern: &[String], lines: &[&str]) -> bool {
    match (pattern.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((any, more)), _) if any == "…" => {
            fits(more, lines) || !lines.is_empty() && fits(pattern, &lines[1..])
        }
        (Some((first, more)), Some((line, rest))) => line_fits(first, line) && fits(more, rest),
        _ => false,
    }
}

#[test]
fn the_tour_is_what_happens() {
    const MARK: char = '\u{1e}';
    let env = TestEnvironment::bare();
    // Made here, since in a container its first recording would warn.
    env.run(&["init", "--store", env.store().to_str().unwrap()]).success();
    let tour = tour();
    assert!(tour.len() > 10, "the tour is gone");
    // One shell for all of it; behind each command a mark and its exit code.
    let script: String = tour
        .iter()
        .map(|shown| {
            format!("{}\ncode=$?; printf '{MARK}%s{MARK}' $code; (exit $code)\n", shown.command)
        })
        .collect();
    let mut command = env.isolate(Command::new("sh"));
    let beside = Path::new(ABIDE).parent().unwrap();
    command.env("PATH", format!("{}:/usr/bin:/bin", beside.display()));
    command.args(["-c", &format!("exec 2>&1\n{script}")]);
    let done = run(command, b"");
    let mut parts = done.stdout().split(MARK);
    for (number, shown) in tour.iter().enumerate() {
        let (output, code) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let lines: Vec<_> = output.lines().collect();
        assert!(
            fits(&shown.output, &lines),
            "$ {}\n{output}\nis shown as\n{}",
            shown.command,
            shown.output.join("\n")
        );
        let told = tour.get(number + 1).is_some_and(|next| next.command == "echo $?");
        assert!(code == "0" || told, "$ {} ended with {code}:\n{output}", shown.command);
    }
}

#[test]
fn the_readme_is_short_and_its_commands_exist() {
    let env = TestEnvironment::bare();
    let page = page("README.md");
    assert!(page.lines().count() <= 120);
    let blocks = blocks(&page, "sh");
    let commands = blocks.iter().flat_map(|block| block.lines());
    let named: Vec<_> = commands.filter_map(|line| line.split("abide ").nth(1)).collect();
    assert!(named.len() > 6, "{named:?}");
    for command in named {
        let verb = command.split(' ').next().unwrap();
        let help = env.run(&[verb, "--help"]);
        assert_eq!(help.code, 0, "{command}");
    }
    let known = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in known.filter(|link| !link.starts_with("http")) {
        assert!(root().join(link).is_file(), "{link}");
    }
}

#[test]
fn the_library_example_is_the_librarys_own() {
    let own = page("crates/abide/src/lib.rs");
    let own: Vec<_> = own
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .skip_while(|line| *line != "```")
        .skip(1)
        .take_while(|line| *line != "```")
        .filter(|line| !line.starts_with("# "))
        .collect();
    assert!(own.len() > 10);
    assert_eq!(blocks(&page("docs/library.md"), "rust")[0], own.join("\n"));
}

/// Every `module::a_test_by_its_name` that the pages mention.
#[test]
fn every_test_that_a_page_names_exists() {
    fn collect(dir: &Path, sources: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, sources);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.push((path, text));
            }
        }
    }
    let mut sources = Vec::new();
    collect(&root().join("crates"), &mut sources);
    let mut named = 0;
    for name in ["docs/guarantees.md", "docs/architecture.md", "docs/format.md", "docs/recovery.md"]
    {
        let page = page(name);
        let words = page.split('`').skip(1).step_by(2);
        for (module, test) in words.filter_map(|word| word.split_once("::")) {
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if !plain(module) || !plain(test) || test.len() < 12 {
                continue;
            }
            let function = format!("fn {test}(");
            let found = sources.iter().any(|(path, text)| {
                path.file_stem().is_some_and(|stem| stem == module) && text.contains(&function)
            });
            assert!(found, "{name} names {module}::{test}, which is not there");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

/// The first 120 bits of a hash in base64url.
fn sum(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let hash = ObjectHash::of(bytes).0;
    let mut text = String::new();
    for three in hash[..15].chunks(3) {
        let bits = usize::from(three[0]) << 16 | usize::from(three[1]) << 8 | usize::from(three[2]);
        for shift in [18, 12, 6, 0] {
            text.push(char::from(ALPHABET[bits >> shift & 63]));
        }
    }
    text
}

/// The worked example of the format, computed as the page says and not as the code does.
#[test]
fn the_worked_example_of_the_format_is_right() {
    let page = page("docs/format.md");
    let example = &blocks(&page, "jsonl")[0];
    let mut lines = example.lines();
    let header = lines.next().unwrap();
    let (covered, own) = header.split_once(",\"sum\":\"").unwrap();
    assert_eq!(own, format!("{}\"}}", sum(covered.as_bytes())));
    let session = header.split("\"session\":\"").nth(1).unwrap().split('"').next().unwrap();
    let session: SessionId = session.parse().unwrap();
    let genesis = sum(&[&b"abide journal 1 "[..], session.as_bytes()].concat());
    assert!(header.contains(&format!("\"prev\":\"{genesis}\"")));
    let mut before = genesis;
    let mut count = 0;
    for line in lines {
        let (rest, trailer) = line.split_at(line.len() - 56);
        let trailer = trailer.strip_prefix(",\"sum\":\"").unwrap().strip_suffix("\"}").unwrap();
        let [salt, prev, own] = trailer.split('.').collect::<Vec<_>>().try_into().unwrap();
        // No string in the head of these lines contains the name of the body's field.
        let body_at = rest.find(",\"data\":").unwrap() + 1;
        let (head, body) = rest.split_at(body_at);
        let digest = ObjectHash::of(format!("{salt}{body}").as_bytes());
        let covered = [head.as_bytes(), &digest.0[..], prev.as_bytes()].concat();
        assert_eq!((prev, own), (&before[..12], sum(&covered).as_str()), "{line}");
        if count == 0 {
            assert!(page.contains(&digest.to_string()), "the digest is not on the page");
        }
        before = own.to_owned();
        count += 1;
    }
    assert_eq!(count, 3);
}
