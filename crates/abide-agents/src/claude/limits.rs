//! How Claude Code tells that a limit was met.

use crate::limits::LimitTexts;

pub(super) const TEXTS: LimitTexts = LimitTexts {
    statements: &[
        ("usage limit reached", "usage"),
        ("reached your usage limit", "usage"),
        ("reached your limit", "usage"),
        ("hit your limit", "usage"),
        ("hit your session limit", "usage"),
        ("hit your weekly limit", "usage"),
        ("hour limit reached", "usage"),
        ("weekly limit reached", "usage"),
        ("session limit reached", "usage"),
    ],
    beginnings: &["claude", "5-hour", "weekly limit", "session limit"],
    before_seconds: &["limit reached|"],
};

#[cfg(test)]
mod tests {
    use crate::limits::tests::{at, clock, is_told};

    #[test]
    fn limits_as_they_are_told() {
        for (text, name, resets) in [
            ("Claude AI usage limit reached|1763210000", "usage", at(10_000)),
            (
                "Claude usage limit reached. Your limit will reset at 3pm (UTC).",
                "usage",
                clock("2025-11-15T15:00:00Z"),
            ),
            ("You've hit your limit · resets 9:30am (UTC)", "usage", clock("2025-11-16T09:30:00Z")),
            ("You’ve hit your limit · resets 3pm (America/New_York)", "usage", None),
            ("5-hour limit reached ∙ resets 11am (UTC)", "usage", clock("2025-11-15T11:00:00Z")),
            (
                "Weekly limit reached ∙ resets Nov 20, 5pm (UTC)",
                "usage",
                clock("2025-11-20T17:00:00Z"),
            ),
        ] {
            is_told(text, name, resets);
        }
    }
}
