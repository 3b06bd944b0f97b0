//! Whether a text of a secret's shape is likely to be one: its entropy, placeholders, words.

/// For each letter, which letters follow it often in English and in code: the 170 commonest pairs,
/// about nine tenths of all pairs in words and a quarter of those in random letters.
const COMMON_PAIRS: [u32; 26] = [
    0x10eb94e, 0x1100810, 0xa4c91, 0x44111, 0xefb83d, 0x26101, 0x10, 0x4111, 0x20e783c, 0x10,
    0x40110, 0x1c4939, 0x10d111, 0x1c415d, 0x5efc2e, 0x1a4811, 0x0, 0x11e7119, 0x1c4591, 0x1164195,
    0xeb812, 0x10, 0x26181, 0x80000, 0x80000, 0x0,
];

/// Shannon's entropy of the bytes, in bits per byte.
pub(crate) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = bytes.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / all;
            -share * share.log2()
        })
        .sum()
}

/// Whether it consists of words or of names rather than of random characters.
pub(crate) fn is_wordlike(bytes: &[u8]) -> bool {
    // Hexadecimal digits have few letters to make pairs of, and words have few digits.
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits * 5 >= bytes.len() || bytes.iter().all(u8::is_ascii_hexdigit) {
        return false;
    }
    let (mut pairs, mut common) = (0u32, 0u32);
    for window in bytes.windows(2) {
        let [one, next] = window else { continue };
        // In a random text of both cases, half of the pairs change case: a pair across a change counts
        // only where a word may begin.
        if !one.is_ascii_alphabetic()
            || !next.is_ascii_alphabetic()
            || (one.is_ascii_lowercase() && next.is_ascii_uppercase())
        {
            continue;
        }
        pairs += 1;
        let row = usize::from(one.to_ascii_lowercase() - b'a');
        let column = next.to_ascii_lowercase() - b'a';
        common += COMMON_PAIRS.get(row).map_or(0, |row| (row >> column) & 1);
    }
    // Of few pairs, most may be common by chance.
    common * 100 >= pairs * if pairs < 10 { 83 } else { 62 } && pairs >= 6
}

/// Whether it has a digit among the letters, or is long and of both cases: one in a thousand random keys
/// has no digit.
pub(crate) fn has_digit_or_cases(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit)
        || bytes.len() >= 32
            && bytes.iter().any(u8::is_ascii_lowercase)
            && bytes.iter().any(u8::is_ascii_uppercase)
}

const PLACEHOLDER_PARTS: [&[u8]; 16] = [
    b"example",
    b"placeholder",
    b"redacted",
    b"changeme",
    b"change_me",
    b"change-me",
    b"your_",
    b"your-",
    b"yourkey",
    b"my_secret",
    b"insert_",
    b"replace_",
    b"dummy",
    b"xxxxx",
    b"abcdefghijklmnop",
    b"0123456789abcdef",
];

/// Whether it stands for a secret rather than being one: examples, templates, variables, one character
/// over and over.
pub(crate) fn is_placeholder(bytes: &[u8]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let Some((first, rest)) = lower.split_first() else { return true };
    if rest.iter().all(|byte| byte == first) {
        return true;
    }
    if PLACEHOLDER_PARTS.iter().any(|part| memchr::memmem::find(&lower, part).is_some()) {
        return true;
    }
    if bytes.windows(5).any(|window| window.iter().all(|byte| matches!(byte, b'*')))
        || memchr::memmem::find(bytes, b"...").is_some()
        || memchr::memmem::find(bytes, "…".as_bytes()).is_some()
    {
        return true;
    }
    // A variable: `$NAME`, `${NAME}`, `$(command)`.
    if let [b'$', rest @ ..] = bytes
        && (matches!(rest, [b'{' | b'(', ..])
            || rest.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_'))
    {
        return true;
    }
    matches!(
        lower.as_slice(),
        [b'<', .., b'>'] | [b'{', b'{', ..] | [b'%', .., b'%'] | [b'@', .., b'@']
    ) || matches!(lower.as_slice(), b"true" | b"false" | b"null" | b"none" | b"undefined")
}

const PASSWORD_WORDS: [&[u8]; 30] = [
    b"pass",
    b"passw",
    b"passwd",
    b"password",
    b"pwd",
    b"secret",
    b"token",
    b"test",
    b"foo",
    b"bar",
    b"baz",
    b"root",
    b"admin",
    b"user",
    b"username",
    b"postgres",
    b"mysql",
    b"redis",
    b"guest",
    b"hunter2",
    b"key",
    b"apikey",
    b"x-oauth-basic",
    b"x-access-token",
    b"oauth2",
    b"git",
    b"localhost",
    b"pw",
    b"hidden",
    b"minioadmin",
];

/// Whether a password in a URL or an argument is one of those that documents and tests use, or code that
/// puts it there.
pub(crate) fn is_placeholder_password(bytes: &[u8]) -> bool {
    let word = bytes.trim_ascii().to_ascii_lowercase();
    let word = word.strip_suffix(b"123").or_else(|| word.strip_suffix(b"1234")).unwrap_or(&word);
    PASSWORD_WORDS.contains(&word)
        || is_placeholder(bytes)
        || bytes.iter().all(|byte| byte.is_ascii_digit())
        || bytes.iter().any(|byte| {
            matches!(
                byte,
                b'{' | b'}'
                    | b'('
                    | b')'
                    | b'['
                    | b']'
                    | b'|'
                    | b'$'
                    | b'<'
                    | b'>'
                    | b'`'
                    | b','
                    | b';'
                    | b'"'
                    | b'\\'
                    | 0x80..
            )
        })
        || (bytes.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_' || *byte == b'-')
            && (bytes.len() < 8 || is_wordlike(bytes)))
        || (bytes.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
            && (bytes.len() < 12 || is_wordlike(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_told_from_random_text() {
        for words in [
            "linear_gradient_background_colour",
            "SessionWriterForTheLocalStore",
            "configuration-of-the-server-1",
            "RETENTION_POLICY_SETTINGS",
        ] {
            assert!(is_wordlike(words.as_bytes()), "{words}");
        }
        for random in [
            "k3J9xQz7Lw2Vb8Rt",
            "qzkvxwjhgfpbqmzt",
            "5f4dcc3b5aa765d61d8327deb882cf99",
            "XkCdQpZrTwVbNjHg",
        ] {
            assert!(!is_wordlike(random.as_bytes()), "{random}");
        }
    }

    #[test]
    fn placeholders_are_no_secrets() {
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            "sk-xxxxxxxxxxxxxxxx",
            "aaaaaaaa",
            "${TOKEN}",
            "<token>",
            "your_api_key_here",
            "abc...xyz",
        ] {
            assert!(is_placeholder(text.as_bytes()), "{text}");
        }
        assert!(!is_placeholder(b"k3J9xQz7Lw2Vb8Rt"));
        for text in ["password", "pass123", "{password}", "MY_PASSWORD", "PASSWORD", "12345"] {
            assert!(is_placeholder_password(text.as_bytes()), "{text}");
        }
        assert!(!is_placeholder_password(b"tr0ub4dor"));
    }

    #[test]
    fn entropy_is_counted_in_bits() {
        assert!(entropy(b"aaaa") < 0.001);
        assert!((entropy(b"abcd") - 2.0).abs() < 0.001);
    }
}
