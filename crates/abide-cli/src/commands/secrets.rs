//! `abide secrets`: finds secrets in files, masks them in a text, lists the rules.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use abide::secrets::{RedactionTally, Redactor, unscanned_mark};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::error::{CommandError, at};
use crate::secret_masking::{secret_redactor, tally_text};

/// How much of a file is read at once.
const CHUNK: usize = 64 << 10;
/// A longer line is scanned as a text rather than as JSON.
const LINE: u64 = 64 << 20;
/// Files in which each line may be a JSON document of its own.
const JSON_NAMES: [&str; 4] = ["json", "jsonl", "ndjson", "ipynb"];

/// Find secrets in files, or mask them in a text
///
/// Secrets are found by the forms that vendors give them, and by the values of environment variables,
/// and of `.env` files in the current directory, whose names say that they are secret. What abide records has
/// marks in their place; your settings (~/.config/abide/config.toml), under `[secrets]`, allow values, switch
/// rules off and add own ones. To remove a secret that was recorded before, use `abide erase`.
#[derive(Debug, clap::Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SecretsCommand {
    Scan(ScanArgs),
    #[command(alias = "test")]
    Mask(MaskArgs),
    Rules(RulesArgs),
}

/// Find secrets in files and directories
///
/// Prints each file that has some, with the rules that found them and how often, but never a secret.
/// The exit code is 1 if there are any. Symbolic links and `.git` are not followed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide secrets scan .
  abide secrets scan ~/notes log.txt --json")]
struct ScanArgs {
    /// The files and directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print each file as a line of JSON
    #[arg(long)]
    json: bool,
}

/// Mask the secrets in a text from stdin, and print it
#[derive(Debug, clap::Args)]
struct MaskArgs {}

/// List the rules: id and pattern
#[derive(Debug, clap::Args)]
struct RulesArgs {}

impl SecretsArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        match self.command {
            SecretsCommand::Scan(scan) => scan.run(surroundings),
            SecretsCommand::Mask(_) => mask_stdin(surroundings),
            SecretsCommand::Rules(_) => list_rules(surroundings),
        }
    }
}

impl ScanArgs {
    fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut scan = SecretScan {
            redactor: secret_redactor(&surroundings.redaction(), Some(&surroundings.current_dir))?,
            out: CommandOutput::stdout(),
            json: self.json,
            files: 0,
            found: 0,
            unread: 0,
        };
        for path in &self.paths {
            let path = surroundings.absolute(path);
            let data = fs::metadata(&path).map_err(at("find", &path))?;
            match data.is_dir() {
                true => scan.directory(&path)?,
                false => scan.file(&path)?,
            }
        }
        scan.out.flush()?;
        let (files, found) = (scan.files, scan.found);
        let s = |count: u64| if count == 1 { "" } else { "s" };
        status(format_args!("{found} of {files} file{} with secrets", s(files)));
        match (found, scan.unread) {
            (0, 0) => Ok(()),
            (0, unread) => {
                Err(CommandError::failed(format!("{unread} file{} could not be read", s(unread))))
            }
            _ => Err(CommandError::Reported),
        }
    }
}

/// A scan of files.
struct SecretScan {
    redactor: Redactor,
    out: CommandOutput,
    json: bool,
    files: u64,
    found: u64,
    unread: u64,
}

impl SecretScan {
    /// Scans the files below a directory, by name.
    fn directory(&mut self, dir: &Path) -> Result<(), CommandError> {
        let mut open = vec![dir.to_owned()];
        while let Some(dir) = open.pop() {
            let listed = fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(error) => {
                    self.pass(&dir, &error);
                    continue;
                }
            };
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && entry.file_name() == ".git" => {}
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    Ok(kind) if kind.is_file() => self.file(&entry.path())?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Notes what cannot be read; the others are scanned all the same.
    fn pass(&mut self, path: &Path, error: &io::Error) {
        self.unread += 1;
        warning(format_args!("cannot read {}: {error}", escape::text(&path.to_string_lossy())));
    }

    fn file(&mut self, path: &Path) -> Result<(), CommandError> {
        self.files += 1;
        let tally = match file_tally(&self.redactor, path) {
            Ok(tally) => tally,
            Err(error) => {
                self.pass(path, &error);
                return Ok(());
            }
        };
        if tally.is_empty() {
            return Ok(());
        }
        self.found += 1;
        let path = path.to_string_lossy();
        if self.json {
            let rules: serde_json::Map<String, serde_json::Value> = tally
                .by_rule()
                .map(|(rule, found)| (rule.to_owned(), found.marks.into()))
                .collect();
            let line =
                serde_json::json!({ "path": path, "secrets": tally.total(), "rules": rules });
            self.out.json(&line.to_string())
        } else {
            self.out.line(format_args!("{}: {}", escape::text(&path), tally_text(&tally)))
        }
    }
}

/// What a file has.
fn file_tally(redactor: &Redactor, path: &Path) -> io::Result<RedactionTally> {
    let file = File::open(path)?;
    let is_json = path.extension().is_some_and(|extension| {
        JSON_NAMES.iter().any(|name| extension.eq_ignore_ascii_case(name))
    });
    if is_json { json_tally(redactor, BufReader::new(file)) } else { text_tally(redactor, file) }
}

/// What the lines of a JSON file have. A line that is no JSON is scanned as text.
fn json_tally(redactor: &Redactor, mut file: impl BufRead) -> io::Result<RedactionTally> {
    let mut tally = RedactionTally::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(tally);
        }
        let text = String::from_utf8_lossy(&line);
        match redactor.redact_json(text.trim()) {
            Ok(redacted) => tally.merge(redacted.tally()),
            Err(_) => match redactor.redact_text(&text) {
                Ok(redacted) => tally.merge(redacted.tally()),
                Err(overrun) => return Err(unscanned_error(overrun.bytes)),
            },
        }
    }
}

/// What a text has, in bounded memory.
fn text_tally(redactor: &Redactor, mut file: impl Read) -> io::Result<RedactionTally> {
    let mut stream = redactor.stream();
    let mut bytes = vec![0; CHUNK];
    loop {
        let read = file.read(&mut bytes)?;
        if read == 0 {
            stream.finish();
            return Ok(stream.tally().clone());
        }
        stream.push_bytes(bytes.get(..read).unwrap_or_default());
    }
}

fn unscanned_error(bytes: u64) -> io::Error {
    io::Error::other(format!("{bytes} bytes would take too long to scan"))
}

/// Prints stdin with marks in place of secrets.
fn mask_stdin(surroundings: &CommandContext) -> Result<(), CommandError> {
    let redactor = secret_redactor(&surroundings.redaction(), Some(&surroundings.current_dir))?;
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text).map_err(at("read", "stdin"))?;
    let text = String::from_utf8_lossy(&text);
    let mut out = CommandOutput::stdout();
    let told = match redactor.redact_text(&text) {
        Ok(redacted) => {
            out.bytes(redacted.text().as_bytes())?;
            tally_text(redacted.tally())
        }
        Err(overrun) => {
            out.line(unscanned_mark(overrun.bytes))?;
            out.flush()?;
            return Err(CommandError::failed("the text would take too long to scan"));
        }
    };
    out.flush()?;
    status(if told.is_empty() { "No secret found" } else { &told });
    Ok(())
}

fn list_rules(surroundings: &CommandContext) -> Result<(), CommandError> {
    let rules = surroundings.redaction().rules().map_err(abide::Error::from)?;
    let mut out = CommandOutput::stdout();
    for rule in rules.rules().filter(|rule| rule.is_enabled) {
        out.line(format_args!("{}\t{}", rule.id, escape::text(rule.pattern)))?;
    }
    out.flush()
}
