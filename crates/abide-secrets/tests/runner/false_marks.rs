//! Texts without secrets get no marks: the sources of this repository, its sample sessions, and noise.

use std::path::{Path, PathBuf};

use abide_secrets::Redactor;

use crate::random_text::RandomText;
use crate::redactor;

/// How long a message is.
const MESSAGE: usize = 6 * 1024;
/// How many messages of noise.
const NOISE: usize = 6_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts of the repository.
fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, out);
            }
        } else if [".rs", ".md", ".lock", ".toml", ".jsonl", ".json", ".sh", ".py", ".yml"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            out.push(path);
        }
    }
}

struct FalseMarks {
    messages: usize,
    bytes: usize,
    marks: Vec<String>,
}

impl FalseMarks {
    fn look_at(&mut self, redactor: &Redactor, text: &str, from: &str) {
        self.messages += text.len().div_ceil(MESSAGE);
        self.bytes += text.len();
        for (line, shown) in redactor.redact_text(text).unwrap().text().lines().zip(text.lines()) {
            // A URL with a password is none of these: the tests of the code that hides them have some.
            if line != shown && !(line.contains("://") && line.contains("‹redacted:url-password:"))
            {
                self.marks.push(format!(
                    "{from}: {} → {}",
                    shown.chars().take(200).collect::<String>(),
                    line.chars().take(200).collect::<String>()
                ));
            }
        }
    }
}

#[test]
fn sources_and_sessions_and_noise_get_no_marks() {
    let redactor = redactor();
    let mut count = FalseMarks { messages: 0, bytes: 0, marks: Vec::new() };
    let mut paths = Vec::new();
    for part in ["crates", "docs", "scripts"] {
        files(&root().join(part), &mut paths);
    }
    paths.extend(
        ["Cargo.lock", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
            .map(|name| root().join(name)),
    );
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        count.look_at(&redactor, &text, &name);
    }
    println!(
        "{} messages ({} bytes) of this repository: {} lines with a mark",
        count.messages,
        count.bytes,
        count.marks.len()
    );
    let mut random = RandomText(0xfa15e);
    let words = [
        "const",
        "function",
        "return",
        "secret",
        "token",
        "key",
        "api",
        "linear",
        "segment",
        "discord",
        "password",
        "=>",
        "this.state",
        "access",
        "monday",
        "notion",
        "vault",
    ];
    for number in 0..NOISE {
        let mut text = String::with_capacity(MESSAGE + 200);
        while text.len() < MESSAGE {
            match number % 6 {
                0 => text.push_str(&format!("{} ", random.uuid())),
                1 => text.push_str(&format!("\"checksum\": \"{}\", ", random.hex(64))),
                2 => text.push_str(&format!("integrity: sha512-{}==\n", random.base64(86))),
                3 => text.push_str(&format!("{}\n", random.base64(76))),
                4 => {
                    let word = random.pick(&words);
                    let letters = 1 + random.below(3);
                    text.push_str(&format!(
                        "{word}({},{}){{{}}}",
                        random.draw(b"abcdefghijklmnopqrstuvwxyz", letters),
                        random.below(9),
                        random.pick(&words)
                    ));
                }
                _ => {
                    let word = random.pick(&words);
                    text.push_str(&format!(
                        "commit {}\n    {word} {}: {}\n",
                        random.hex(40),
                        random.pick(&words),
                        random.pick(&words)
                    ));
                }
            }
        }
        count.look_at(&redactor, &text, "noise");
    }
    println!(
        "{} messages ({} bytes) in all: {} lines with a mark",
        count.messages,
        count.bytes,
        count.marks.len()
    );
    for mark in count.marks.iter().take(60) {
        println!("  {mark}");
    }
    assert!(
        count.marks.len() * 10_000 <= count.messages.max(10_000),
        "{} lines with a mark",
        count.marks.len()
    );
}
