//! Judges by its name and its value whether a variable holds a secret.

use crate::plausibility::{is_placeholder, is_wordlike};

const SECRET_WORDS: [&str; 23] = [
    "PASS",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "PWD",
    "PAT",
    "SECRETKEY",
    "ACCESSKEY",
    "AUTHTOKEN",
    "ACCESSTOKEN",
    "PRIVATEKEY",
    "CLIENTSECRET",
    "CONNSTR",
    "DSN",
    "SIGNINGKEY",
    "MNEMONIC",
];
/// Words that say something about a secret without being it, where they end a name.
const ABOUT_WORDS: [&str; 44] = [
    "ID",
    "NAME",
    "PATH",
    "FILE",
    "FILENAME",
    "DIR",
    "DIRECTORY",
    "HOST",
    "PORT",
    "TTL",
    "EXPIRY",
    "EXPIRES",
    "EXPIRATION",
    "LENGTH",
    "COUNT",
    "LIMIT",
    "MAX",
    "MIN",
    "TYPE",
    "ALGORITHM",
    "ALG",
    "USER",
    "USERNAME",
    "TIMEOUT",
    "ENABLED",
    "POLICY",
    "PREFIX",
    "SOCK",
    "VERSION",
    "URL",
    "URI",
    "ENDPOINT",
    "REGION",
    "HEADER",
    "ISSUER",
    "AUDIENCE",
    "SCOPE",
    "SCOPES",
    "STORE",
    "PROVIDER",
    "FORMAT",
    "SIZE",
    "HINT",
    "COMMAND",
];

/// Whether a variable of this name holds a secret: `GITHUB_TOKEN`, `apiKey`, `DB_PASSWORD_PROD`, but not
/// `PUBLIC_KEY`, `AWS_ACCESS_KEY_ID`, `KEY_PATH` or `MAX_TOKENS`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words_of(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(last) = words.last() else { return false };
    if words.iter().any(|word| matches!(*word, "PUBLIC" | "PUB" | "PUBLISHABLE")) {
        return false;
    }
    if words == ["PWD"] || words == ["OLD", "PWD"] || words == ["OLDPWD"] {
        return false;
    }
    if ABOUT_WORDS.contains(last) {
        return words.iter().any(|word| {
            matches!(
                *word,
                "DATABASE" | "WEBHOOK" | "REDIS" | "MONGO" | "MONGODB" | "POSTGRES" | "AMQP"
            )
        }) && matches!(*last, "URL" | "URI");
    }
    let ends_secret = |word: &str| {
        ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY"].iter().any(|end| word.ends_with(end))
    };
    if words.iter().any(|word| SECRET_WORDS.contains(word) || ends_secret(word)) {
        return true;
    }
    // A key is one at the end of a name, or before what says which of several it is.
    let key = words.iter().rposition(|word| *word == "KEY");
    key.is_some_and(|place| {
        words.len() > 1
            && words.iter().skip(place + 1).all(|word| {
                matches!(
                    *word,
                    "BASE"
                        | "PROD"
                        | "PRODUCTION"
                        | "DEV"
                        | "STAGING"
                        | "TEST"
                        | "LIVE"
                        | "OLD"
                        | "NEW"
                        | "PRIMARY"
                        | "SECONDARY"
                ) || word.bytes().all(|byte| byte.is_ascii_digit())
            })
            && !words.iter().any(|word| {
                matches!(*word, "FOREIGN" | "SORT" | "PARTITION" | "PRESS" | "HOT" | "CACHE")
            })
    }) || (*last == "AUTH" && words.len() > 1)
        || (words.contains(&"CONNECTION") && *last == "STRING")
}

/// The words of a name in capitals, at `_`, `-`, `.` and at changes of case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for character in name.chars().take(256) {
        if !character.is_alphanumeric() {
            words.push(String::new());
        } else {
            if previous.is_lowercase() && character.is_uppercase() {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(character.to_uppercase());
            }
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

const COMMON_VALUES: [&str; 24] = [
    "password",
    "changeme",
    "changeit",
    "postgres",
    "mysql",
    "default",
    "development",
    "production",
    "disabled",
    "enabled",
    "required",
    "localhost",
    "password123",
    "passw0rd",
    "password1",
    "admin123",
    "minioadmin",
    "administrator",
    "keyring",
    "optional",
    "undefined",
    "anonymous",
    "none",
    "secret",
];

/// Whether a value may be looked for as a literal: it is long enough, and no word, path, number or placeholder
/// that stands in texts for other reasons.
#[must_use]
pub fn is_secret_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    if value.len() < 8 || value.len() > 4096 || value.trim() != value {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    let is_path = value.starts_with('/')
        && !value.contains('=')
        && value.bytes().filter(|byte| *byte == b'/').count() > 1
        || value.starts_with("./")
        || value.starts_with("../")
        || value.starts_with("~/")
        || value.as_bytes().get(1..3) == Some(b":\\");
    let is_plain_url =
        value.contains("://") && !value.contains('@') && !value.contains('?') && value.len() < 60;
    if COMMON_VALUES.contains(&lower.as_str()) || is_path || is_plain_url || is_placeholder(bytes) {
        return false;
    }
    let is_number =
        bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':'));
    if is_number {
        return value.len() >= 12;
    }
    let one_case = !bytes.iter().any(u8::is_ascii_digit)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.' | b' '))
        || bytes.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_' | b'.'));
    !(one_case
        && (value.len() < 16 && !value.contains(['-', '_', '.', ' '])
            || is_wordlike(bytes) && value.len() < 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_about_them() {
        for name in [
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "apiKey",
            "client_secret",
            "DB_PASSWORD_PROD",
            "SECRET_KEY_BASE",
            "npm_config_authToken",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD_1",
            "SENTRY_DSN",
            "DATABASE_URL",
            "STRIPE_KEY_LIVE",
            "GH_PAT",
            "REDIS_AUTH",
            "PASSPHRASE",
            "AZURE_STORAGE_CONNECTION_STRING",
            "SLACK_WEBHOOK_URL",
            "DB_PASS_WORD_SECRET",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "PUBLIC_KEY",
            "AWS_ACCESS_KEY_ID",
            "SSH_AUTH_SOCK",
            "KEY_PATH",
            "MAX_TOKENS",
            "TOKEN_TTL",
            "KEYBOARD",
            "KEY",
            "MONKEY",
            "TOKENIZERS_PARALLELISM",
            "SSL_KEY_FILE",
            "FOREIGN_KEY",
            "NEXT_PUBLIC_API_KEY",
            "API_URL",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_that_stand_in_texts_for_other_reasons_are_no_literals() {
        for value in [
            "hunter22",
            "correct-horse-battery",
            "k3J9xQz7",
            "123456789012",
            "postgres://u:p4ss@h/db",
            "tr0ub4dor&3",
        ] {
            assert!(is_secret_value(value), "{value}");
        }
        for value in [
            "short",
            "password",
            "12345678",
            "/home/me/key.pem",
            "~/.ssh/id_rsa",
            "https://api.acme.test",
            "${TOKEN_VALUE}",
            "disabled",
            "production",
            "xxxxxxxxxx",
            "your_token_here",
            "1.2.3.4:80",
            "C:\\keys\\a",
        ] {
            assert!(!is_secret_value(value), "{value}");
        }
    }
}
