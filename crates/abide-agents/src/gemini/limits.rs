//! How Gemini CLI tells that a limit was met.

use crate::limits::LimitTexts;

pub(super) const TEXTS: LimitTexts = LimitTexts {
    statements: &[
        ("exhausted your capacity", "quota"),
        ("exhausted your daily quota", "quota"),
        ("quota will reset", "quota"),
        ("resource_exhausted", "quota"),
        ("resource has been exhausted", "quota"),
    ],
    beginnings: &["attempt ", "resource"],
    before_seconds: &[],
};

#[cfg(test)]
mod tests {
    use crate::limits::tests::{at, is_told};

    #[test]
    fn limits_as_they_are_told() {
        for (text, name, resets) in [
            (
                "You have exhausted your capacity on this model. Your quota will reset after 12h34m56s.",
                "quota",
                at(12 * 3600 + 34 * 60 + 56),
            ),
            (
                "{\"error\":{\"code\":429,\"message\":\"You exceeded your current quota\",\"details\":[{\"retryDelay\":\"13s\"}]}}",
                "quota",
                at(13),
            ),
        ] {
            is_told(text, name, resets);
        }
    }
}
