//! How Codex tells that a limit was met.

use crate::limits::LimitTexts;

pub(super) const TEXTS: LimitTexts = LimitTexts {
    statements: &[("usage limit has been reached", "usage"), ("hit your usage limit", "usage")],
    beginnings: &["stream error", "exceeded retry limit", "unexpected status", "last status"],
    before_seconds: &[],
};

#[cfg(test)]
mod tests {
    use crate::limits::tests::{at, is_told};

    #[test]
    fn limits_as_they_are_told() {
        for (text, name, resets) in [
            (
                "You've hit your usage limit. Upgrade to Pro (https://example.com/pro) or try again in 3 days 4 hours 5 minutes.",
                "usage",
                at(3 * 86_400 + 4 * 3600 + 300),
            ),
            ("You've hit your usage limit. Try again at 3:05 PM.", "usage", None),
            (
                "ERROR: exceeded retry limit, last status: 429 Too Many Requests, request id: abc",
                "rate",
                None,
            ),
            ("stream error: Rate limit reached, try again in 1m30s", "rate", at(90)),
        ] {
            is_told(text, name, resets);
        }
    }
}
