//! What the messages say: real text, cut into pieces of 1 KiB, no two alike.
//!
//! It is taken from the sources of this program's own dependencies, as cargo keeps them. Crates
//! that hold generated bindings are left out: page after page of constants packs far better than
//! what people and models write. Where there are more messages than text, further passes cut it
//! at other places; what repeats is then as far apart as the whole text is long.

use std::path::{Path, PathBuf};

/// The bytes of a message.
pub(crate) const PIECE: usize = 1024;

/// Below this, text is made up instead.
const ENOUGH: usize = 8 << 20;
const GENERATED: [&str; 3] = ["libc-", "linux-raw-sys-", "windows"];
/// How far each pass is moved against the one before; no divisor of a piece.
const SHIFT: usize = 331;

/// The text of the messages.
#[derive(Debug)]
pub(crate) struct Text {
    whole: String,
    source: &'static str,
}

impl Text {
    pub(crate) fn load() -> Self {
        let mut files = Vec::new();
        if let Some(registry) = registry() {
            collect(&registry, &mut files);
        }
        files.sort_unstable();
        let mut whole = String::new();
        for file in files {
            // What is not UTF-8 is left out.
            if let Ok(text) = std::fs::read_to_string(&file) {
                whole.push_str(&text);
            }
        }
        if whole.len() >= ENOUGH {
            return Self { whole, source: "sources of the dependencies" };
        }
        Self { whole: made_up(4 * ENOUGH), source: "made-up words with Zipf frequencies" }
    }

    /// Where it is from, for the output.
    pub(crate) fn describe(&self) -> String {
        format!("{}, {} MB", self.source, self.whole.len() / 1_000_000)
    }

    /// The text of a message.
    pub(crate) fn piece(&self, index: usize) -> &str {
        let pieces = self.whole.len() / PIECE - 2;
        let start = index % pieces * PIECE + index / pieces * SHIFT % PIECE;
        let (start, end) = (self.boundary(start), self.boundary(start + PIECE));
        &self.whole[start..end]
    }

    fn boundary(&self, mut at: usize) -> usize {
        while !self.whole.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// Where cargo keeps the sources of dependencies.
pub(crate) fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("registry/src"))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if GENERATED.iter().any(|crate_name| name.starts_with(crate_name)) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if [".rs", ".md", ".c", ".h"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
}

/// Sentences of made-up words, the same every time.
fn made_up(bytes: usize) -> String {
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let words: Vec<String> = (0..20_000)
        .map(|rank: u64| {
            // Frequent words are short.
            let letters = 2 + rank.max(1).ilog2() / 3 + (next() % 3) as u32;
            (0..letters)
                .map(|_| char::from(b"etaoinshrdlucmfwypvbgk"[(next() % 22) as usize]))
                .collect()
        })
        .collect();
    let mut text = String::with_capacity(bytes + 64);
    let mut in_sentence = 0;
    while text.len() < bytes {
        // Uniform in the logarithm of the rank: frequency falls as 1 / rank.
        let uniform = (next() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (words.len() as f64).powf(uniform) as usize - 1;
        text.push_str(&words[rank.min(words.len() - 1)]);
        in_sentence += 1;
        text.push_str(match (in_sentence, next() % 12) {
            (8.., 0) => {
                in_sentence = 0;
                ".\n"
            }
            (3.., 1) => ", ",
            _ => " ",
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_one_size_and_unlike_each_other() {
        let text = Text { whole: made_up(100_000), source: "" };
        let pieces: std::collections::BTreeSet<_> = (0..1000).map(|i| text.piece(i)).collect();
        assert!(pieces.iter().all(|piece| piece.len() == PIECE));
        assert_eq!(pieces.len(), 1000);
    }
}
