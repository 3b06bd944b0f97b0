//! How opencode tells that a limit was met: in the words of the model's server.

use crate::limits::LimitTexts;

pub(super) const TEXTS: LimitTexts =
    LimitTexts { statements: &[], beginnings: &["you exceeded"], before_seconds: &[] };

#[cfg(test)]
mod tests {
    use crate::limits::tests::{at, is_told};

    #[test]
    fn limits_as_they_are_told() {
        let told = "You exceeded your current quota, please check your plan";
        is_told(told, "quota", None);
        is_told(&format!("{told}. Please retry in 30s."), "quota", at(30));
    }
}
