//! Names that no snapshot may put into a workspace: those of repositories and of the store, in
//! every spelling that some file system takes for them.

/// Is it `.git` or `.abide`, or taken for one of them where case, trailing dots and spaces,
/// streams, short names or invisible characters do not count?
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    let visible = match std::str::from_utf8(name) {
        Ok(text) => text.chars().filter(|c| !is_ignorable(*c)).collect::<String>().into_bytes(),
        Err(_) => name.to_vec(),
    };
    let end = visible.iter().position(|byte| matches!(byte, b'\\' | b':'));
    let visible = visible.get(..end.unwrap_or(visible.len())).unwrap_or(&visible);
    let end = visible.iter().rposition(|byte| !matches!(byte, b' ' | b'.'));
    let plain = visible.get(..end.map_or(0, |end| end + 1)).unwrap_or(visible);
    let plain = plain.to_ascii_lowercase();
    matches!(plain.as_slice(), b".git" | b".abide") || is_short(&plain)
}

/// A short name as Windows makes it.
fn is_short(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"git~").or_else(|| name.strip_prefix(b"abide~"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// What HFS+ passes over in names.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_seen_and_other_names_are_not() {
        let reserved = [
            ".git",
            ".GIT",
            ".Git",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git\\config",
            "git~1",
            "GIT~2",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".abide",
            ".ABIDE.",
            "abide~1",
        ];
        for name in reserved {
            assert!(is_reserved(name.as_bytes()), "{name:?}");
        }
        for name in
            [".gitignore", ".github", "git", "git~", "git~x", ".abideignore", "a.git", "..."]
        {
            assert!(!is_reserved(name.as_bytes()), "{name:?}");
        }
        assert!(!is_reserved(b".git\xff"));
    }
}
