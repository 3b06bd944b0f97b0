//! The figures in the repository, and what a count says beside them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::Outcome;

/// So many percent more is a failure, and so many less is told.
pub(super) const MOST: u64 = 5;

/// The program that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Built {
    /// The compiler's version.
    pub(super) rustc: String,
    pub(super) profile: String,
}

impl Built {
    /// As the compiler has written it into a program.
    pub(super) fn by(program: &Path) -> Outcome<Self> {
        const MARK: &[u8] = b"rustc version ";
        let bytes = std::fs::read(program)?;
        let mut version = None;
        // It stands in a section at the end, and here as a constant.
        for at in (0..bytes.len().saturating_sub(MARK.len())).rev() {
            if bytes[at..].starts_with(MARK) {
                let rest = &bytes[at + MARK.len()..];
                let end = rest.iter().position(|byte| *byte == 0 || *byte == b')');
                let text = String::from_utf8_lossy(&rest[..end.unwrap_or(0)]);
                if text.starts_with(|first: char| first.is_ascii_digit()) {
                    version = text.split_whitespace().next().map(str::to_owned);
                    break;
                }
            }
        }
        let rustc = version.ok_or("this program does not say which compiler made it")?;
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        Ok(Self { rustc, profile: profile.to_owned() })
    }
}

/// The file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Figures {
    rustc: String,
    profile: String,
    instructions: BTreeMap<String, u64>,
}

impl Figures {
    /// Reads the file. `None` where there is none.
    pub(super) fn read(path: &Path) -> Outcome<Option<Self>> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(toml::from_str(&text)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Why they say nothing about this program.
    pub(super) fn other_than(&self, built: &Built) -> Option<String> {
        if self.rustc != built.rustc {
            return Some(format!("figures are for rustc {}, this is {}", self.rustc, built.rustc));
        }
        (self.profile != built.profile).then(|| {
            format!("figures are for the profile {}, this is {}", self.profile, built.profile)
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.instructions.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &str, count: u64) {
        self.instructions.insert(name.to_owned(), count);
    }

    pub(super) fn write(&self, path: &Path, built: &Built) -> Outcome {
        let mut text = String::from(
            "# Instructions of the hottest paths, counted by valgrind; see scripts/instructions.\n\
             # Made by `scripts/instructions --write`.\n",
        );
        writeln!(text, "rustc = \"{}\"\nprofile = \"{}\"\n", built.rustc, built.profile)?;
        writeln!(text, "[instructions]")?;
        for (name, count) in &self.instructions {
            writeln!(text, "\"{name}\" = {}", grouped(*count, '_'))?;
        }
        Ok(std::fs::write(path, text)?)
    }
}

/// What a count says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it was.
    Level,
    /// More than it may.
    Slower,
    /// So much less that the figure should follow.
    Faster,
    /// There is no figure yet.
    New,
}

impl Verdict {
    pub(super) const fn of(count: u64, before: Option<u64>) -> Self {
        let Some(before) = before else { return Self::New };
        if count * 100 > before * (100 + MOST) {
            Self::Slower
        } else if count * 100 < before * (100 - MOST) {
            Self::Faster
        } else {
            Self::Level
        }
    }
}

/// A line for people.
pub(super) fn row(name: &str, count: u64, before: Option<u64>, verdict: Verdict) -> String {
    let change = before.map_or_else(String::new, |before| {
        format!("{:+.2} %", (count as f64 / before as f64 - 1.0) * 100.0)
    });
    let said = match verdict {
        Verdict::Level => "",
        Verdict::Slower => "  SLOWER",
        Verdict::Faster => "  faster: `scripts/instructions --write` keeps it so",
        Verdict::New => "  no figure: `scripts/instructions --write` adds it",
    };
    format!("{name:22} {:>14} {change:>9}{said}", grouped(count, ','))
}

fn grouped(count: u64, by: char) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(by);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_more_fails_and_five_less_is_told() {
        for (count, verdict) in [
            (1050, Verdict::Level),
            (1051, Verdict::Slower),
            (950, Verdict::Level),
            (949, Verdict::Faster),
        ] {
            assert_eq!(Verdict::of(count, Some(1000)), verdict, "{count}");
        }
        assert_eq!(Verdict::of(1, None), Verdict::New);
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figures.toml");
        let built = Built { rustc: "1.2.3".to_owned(), profile: "dev".to_owned() };
        assert!(Figures::read(&path).unwrap().is_none());
        let mut figures = Figures::default();
        figures.set("append.one", 1_234_567);
        figures.set("tasks.status", 12);
        figures.write(&path, &built).unwrap();
        let read = Figures::read(&path).unwrap().unwrap();
        assert_eq!(read.get("append.one"), Some(1_234_567));
        assert_eq!((read.get("tasks.status"), read.get("x")), (Some(12), None));
        assert_eq!(read.other_than(&built), None);
        let newer = Built { rustc: "1.3.0".to_owned(), ..built };
        assert_eq!(
            read.other_than(&newer).as_deref(),
            Some("figures are for rustc 1.2.3, this is 1.3.0")
        );
    }

    #[test]
    fn a_program_tells_its_compiler() {
        let built = Built::by(&std::env::current_exe().unwrap()).unwrap();
        assert!(built.rustc.starts_with("1."), "{built:?}");
    }
}
