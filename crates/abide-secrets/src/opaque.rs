//! Fields whose bytes mean something to a model's API alone and must not change: signatures, encrypted
//! reasoning, images.
//!
//! A field is opaque by its name and by its shape. A name alone is not enough, or anything could hide behind it.

/// A shorter value may be a key.
const SHORTEST: usize = 128;

/// How the value of a key may be opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpaqueField {
    /// It is, whatever stands beside it.
    Always,
    /// It is, if a field beside it says that it is media or encrypted.
    BesideMedia,
    /// It is not.
    Never,
}

/// How a value is opaque by its key and its shape.
pub(crate) fn opaque_field(key: &str, value: &str) -> OpaqueField {
    if value.len() < SHORTEST {
        return OpaqueField::Never;
    }
    match key {
        "signature" | "thoughtSignature" | "thought_signature"
            if is_base64(value, Alphabet::Standard) =>
        {
            OpaqueField::Always
        }
        "encrypted_content" | "encryptedContent" | "encrypted_index" | "redacted_thinking"
            if is_base64(value, Alphabet::Both) =>
        {
            OpaqueField::Always
        }
        "data" | "blob" | "b64_json" | "bytes" if is_base64(value, Alphabet::Both) => {
            OpaqueField::BesideMedia
        }
        _ => OpaqueField::Never,
    }
}

/// Whether a field beside `data` says that it is media or encrypted.
pub(crate) fn says_media(key: &str, value: &str) -> bool {
    match key {
        "media_type" | "mediaType" | "mimeType" | "mime_type" => value.contains('/'),
        "type" => matches!(
            value,
            "base64"
                | "redacted_thinking"
                | "reasoning.encrypted"
                | "image"
                | "input_audio"
                | "audio"
        ),
        "format" => matches!(
            value,
            "wav" | "mp3" | "flac" | "opus" | "pcm16" | "png" | "jpeg" | "webp" | "base64"
        ),
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Standard,
    Both,
}

fn is_base64(value: &str, alphabet: Alphabet) -> bool {
    value.trim_end_matches('=').bytes().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'+' | b'/')
            || alphabet == Alphabet::Both && matches!(byte, b'-' | b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_base64_under_the_right_name_is_opaque() {
        let long = "Ab+/".repeat(40);
        assert_eq!(opaque_field("signature", &long), OpaqueField::Always);
        assert_eq!(opaque_field("data", &long), OpaqueField::BesideMedia);
        assert_eq!(opaque_field("content", &long), OpaqueField::Never);
        assert_eq!(opaque_field("signature", "Ab+/"), OpaqueField::Never);
        assert_eq!(opaque_field("signature", &format!("{long} and more")), OpaqueField::Never);
        assert!(says_media("media_type", "image/png") && says_media("type", "base64"));
        assert!(!says_media("type", "text"));
    }
}
