//! Names that are never captured or restored: those of git repositories and of the store, in every
//! spelling that the file system treats as the same name.

/// Returns true for `.git` and `.abide`, in any case and with or without invisible characters. Even
/// on Linux a directory may ignore both.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let spells = |reserved: &str| {
        let visible = text.chars().filter(|c| !is_ignorable(*c));
        visible.map(|c| c.to_ascii_lowercase()).eq(reserved.chars())
    };
    spells(".git") || spells(".abide")
}

/// Returns true if FAT or NTFS would resolve the name to a reserved one: with trailing dots or
/// spaces, as a stream, or as a short name. Used on every file system that may be backed by one of
/// those; elsewhere these are ordinary names.
pub(crate) fn is_alias(name: &[u8]) -> bool {
    let end = name.iter().position(|byte| matches!(byte, b'\\' | b':'));
    let plain = name.get(..end.unwrap_or(name.len())).unwrap_or(name);
    let mut plain = plain;
    while let Some(shorter) = plain.strip_suffix(b" ").or_else(|| plain.strip_suffix(b".")) {
        plain = shorter;
    }
    is_reserved(plain) || is_short(plain)
}

/// Returns true for a Windows short name.
fn is_short(name: &[u8]) -> bool {
    let number = [&b"git~"[..], b"abide~"].into_iter().find_map(|start| {
        let (beginning, number) = name.split_at_checked(start.len())?;
        beginning.eq_ignore_ascii_case(start).then_some(number)
    });
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Characters that HFS+ ignores in names.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_seen_and_no_other_name() {
        for name in [".git", ".GIT", ".Git", ".g\u{200c}it", "\u{feff}.git", ".abide", ".Abide"] {
            assert!(is_reserved(name.as_bytes()) && is_alias(name.as_bytes()), "{name:?}");
        }
        let aliases = [
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git\\config",
            "git~1",
            "GIT~2",
            ".g\u{200c}it.",
            ".ABIDE.",
            "abide~1",
        ];
        for name in aliases {
            assert!(is_alias(name.as_bytes()) && !is_reserved(name.as_bytes()), "{name:?}");
        }
        for name in
            [".gitignore", ".github", "git", "git~", "git~x", ".abideignore", "a.git", "...", ""]
        {
            assert!(!is_alias(name.as_bytes()) && !is_reserved(name.as_bytes()), "{name:?}");
        }
        assert!(!is_reserved(b".git\xff") && !is_alias(b".git\xff"));
    }
}
