//! Texts that are made to be slow cost no more than their length allows.

use abide_secrets::{Literals, MarkKey, RuleSet, unscanned_mark};

use crate::redactor;

#[test]
fn a_hostile_text_is_scanned_in_bounded_work_or_not_given_back() {
    let redactor = redactor();
    let patterns = [
        "eyJ",
        "twilio",
        "discord ",
        "t3blbkfj",
        "https://a:",
        "-----BEGIN PRIVATE KEY-----\n",
        "api_key",
        "curl -u ",
        "sk-",
        "://",
        "linear=",
        ";base64,",
        "‹redacted:",
    ];
    for pattern in patterns {
        let text = pattern.repeat((1 << 20) / pattern.len());
        // The bound counts bytes of windows, so that no clock is needed: within it or not at all.
        match redactor.redact_text(&text) {
            Ok(redacted) => assert_eq!(redacted.original_length(), text.len()),
            Err(overrun) => assert_eq!(overrun.bytes as usize, text.len(), "{pattern}"),
        }
        let document = serde_json::to_string(&[&text, "after"]).unwrap();
        let redacted = redactor.redact_json(&document).unwrap();
        let read: Vec<String> = serde_json::from_str(redacted.text()).unwrap();
        assert_eq!(read[1], "after");
        let mut stream = redactor.stream();
        let mut longest = 0;
        for piece in text.as_bytes().chunks(1000) {
            stream.push(&String::from_utf8_lossy(piece));
            longest = longest.max(stream.held_back());
        }
        stream.finish();
        assert!(longest <= 40 * 1024, "{longest} bytes held back for {pattern}");
    }
}

#[test]
fn a_text_that_overruns_is_not_given_back() {
    let own = "[[rule]]\nid = 'slow'\nregex = 'slow[^!]{1,400}!'\nkeywords = ['slow']\n";
    let rules = RuleSet::load().unwrap().with_own(own).unwrap();
    let redactor = abide_secrets::Redactor::new(rules, Literals::default(), MarkKey::new([1; 32]));
    let text = "slow".repeat(100_000);
    let overrun = redactor.redact_text(&text).unwrap_err();
    assert_eq!(overrun.bytes as usize, text.len());
    let document = serde_json::to_string(&serde_json::json!({"a": text, "b": "fine"})).unwrap();
    let redacted = redactor.redact_json(&document).unwrap();
    assert_eq!(
        redacted.text(),
        format!(r#"{{"a":"{}","b":"fine"}}"#, unscanned_mark(text.len() as u64))
    );
    assert_eq!(
        redacted
            .tally()
            .by_rule()
            .map(|(rule, tally)| (rule.to_owned(), tally.bytes))
            .collect::<Vec<_>>(),
        [("unscanned".to_owned(), text.len() as u64)]
    );
    let mut stream = redactor.stream();
    let mut out = stream.push(&text);
    out.push_str(&stream.finish());
    assert!(
        out.contains("‹redacted:unscanned:") && !out.contains("slowslowslowslow"),
        "{}",
        &out[..200.min(out.len())]
    );
}

#[test]
fn rules_that_cannot_be_used_are_errors() {
    let load =
        |toml: &str| RuleSet::load().unwrap().with_own(toml).map(|_| ()).unwrap_err().to_string();
    assert!(load("nonsense").contains("cannot be read"));
    assert!(load("[[rule]]\nid='a'\nregex='('\nkeywords=['abc']").contains("pattern of rule `a`"));
    assert!(load("[[rule]]\nid='a'\nregex='x*'\nkeywords=['abc']").contains("empty"));
    assert!(load("[[rule]]\nid='a'\nregex='x'\nkeywords=['ab']").contains("keywords"));
    assert!(load("[[rule]]\nid='A b'\nregex='x'\nkeywords=['abc']").contains("id of a rule"));
    assert!(load("[[rule]]\nid='jwt'\nregex='x'\nkeywords=['abc']").contains("already"));
    assert!(
        load("[[rule]]\nid='a'\nregex='x(y)'\nkeywords=['abc']\nsecret_group=2")
            .contains("no group 2")
    );
    assert!(load("[[rule]]\nid='a'\nregex='x'\nkeyword=['abc']").contains("cannot be read"));
}
