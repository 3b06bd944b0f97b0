//! What holds for every text.

use abide_secrets::{Literals, MarkKey, Redactor, RuleSet, unscanned_mark};
use proptest::prelude::*;
use serde_json::Value;

use crate::random_text::RandomText;
use crate::vendor_shapes::{SHAPES, plant};

fn with_literals() -> Redactor {
    let mut literals = Literals::default();
    assert!(literals.add("env", "correct-horse-42"));
    assert!(literals.add("env", "zwei Wörter 99"));
    Redactor::new(RuleSet::load().unwrap(), literals, MarkKey::new([7; 32]))
}

/// Texts of secrets, parts of secrets, marks and other things beside each other.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => any::<u64>().prop_map(|seed| {
            let mut random = RandomText(seed);
            let shape = SHAPES[random.below(SHAPES.len())].1;
            plant(shape, &mut random).0
        }),
        2 => any::<u64>().prop_map(|seed| {
            let mut random = RandomText(seed);
            let shape = SHAPES[random.below(SHAPES.len())].1;
            let text = plant(shape, &mut random).0;
            let mut cut = random.below(text.len());
            while !text.is_char_boundary(cut) { cut -= 1; }
            if random.below(2) == 0 { text[..cut].to_owned() } else { text[cut..].to_owned() }
        }),
        1 => Just("‹redacted:github-token:7f3a91c2›".to_owned()),
        1 => Just("‹redacted:".to_owned()),
        1 => Just("correct-horse-42".to_owned()),
        1 => Just("Y29ycmVjdC1ob3JzZS00Mg==".to_owned()),
        1 => Just("zwei Wörter 99".to_owned()),
        1 => Just("data:image/png;base64,iVBORw0KGgoAAAANSUhEUg".to_owned()),
        3 => "[ \\n\"'=:,;.é_a-z0-9-]{0,12}",
        2 => Just(" ".to_owned()),
        1 => "[a-zA-Z0-9 ]{100,700}",
    ];
    proptest::collection::vec(part, 1..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn redacting_twice_changes_nothing(text in text()) {
        let redactor = with_literals();
        let once = redactor.redact_text(&text).unwrap().into_text().into_owned();
        let twice = redactor.redact_text(&once).unwrap();
        prop_assert_eq!(twice.text(), &once);
    }

    #[test]
    fn a_stream_gives_what_the_whole_gives(text in text(), cuts in proptest::collection::vec(any::<u16>(), 0..20)) {
        let redactor = with_literals();
        let whole = redactor.redact_text(&text).unwrap();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut as usize % (text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut stream = redactor.stream();
        let (mut out, mut from) = (String::new(), 0);
        for cut in cuts {
            out.push_str(&stream.push(&text[from..cut]));
            from = cut;
        }
        out.push_str(&stream.finish());
        prop_assert_eq!(&out, whole.text());
        prop_assert_eq!(stream.tally(), whole.tally());
    }

    #[test]
    fn a_document_stays_one_and_changes_only_where_secrets_were(texts in proptest::collection::vec(text(), 1..5), pretty in any::<bool>()) {
        let redactor = with_literals();
        let value = serde_json::json!({"a": texts[0], "list": texts, "n": 1.5, "nothing": null, "é": {"deep": [[true]]}});
        let document = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let redacted = redactor.redact_json(&document).unwrap();
        let read: Value = serde_json::from_str(redacted.text()).unwrap();
        prop_assert_eq!(read["list"].as_array().unwrap().len(), texts.len());
        prop_assert_eq!(&read["n"], &value["n"]);
        prop_assert_eq!(&read["é"], &value["é"]);
        for (text, got) in texts.iter().zip(read["list"].as_array().unwrap()) {
            let alone = redactor.redact_text(text).unwrap();
            if !text.starts_with(['{', '[']) {
                prop_assert_eq!(got.as_str().unwrap(), alone.text());
            }
        }
        if redacted.is_unchanged() {
            prop_assert_eq!(redacted.text(), &document);
        }
        let twice = redactor.redact_json(redacted.text()).unwrap();
        prop_assert_eq!(twice.text(), redacted.text());
    }

    #[test]
    fn any_text_is_taken(text in any::<String>()) {
        let redactor = with_literals();
        let _ = redactor.redact_text(&text);
        let _ = redactor.redact_json(&text);
    }
}

#[test]
fn keys_give_context_and_opaque_fields_stay() {
    let redactor = with_literals();
    let mut random = RandomText(5);
    let hex = random.hex(32);
    let document = format!(r#"{{ "mixpanel_api_secret" : "{hex}", "other": "{hex}" }}"#);
    let redacted = redactor.redact_json(&document).unwrap();
    assert!(
        redacted.text().starts_with(r#"{ "mixpanel_api_secret" : "‹redacted:"#),
        "{}",
        redacted.text()
    );
    assert!(redacted.text().ends_with(&format!(r#""other": "{hex}" }}"#)), "{}", redacted.text());

    let token = format!("ghp_{}", random.draw(b"abcdefghijkLMNOPQRSTUVWXYZ0123456789", 36));
    let data = format!(
        "{}AKIA{}{}",
        random.base64(200),
        random.draw(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
        "/".repeat(2)
    );
    for opaque in [
        format!(r#"{{"type":"thinking","thinking":"","signature":"{data}"}}"#),
        format!(r#"{{"thoughtSignature":"{data}"}}"#),
        format!(r#"{{"encrypted_content":"gAAAAA{data}"}}"#),
        format!(r#"{{"source":{{"data":"{data}","type":"base64","media_type":"image/png"}}}}"#),
        format!(r#"{{"mimeType":"image/png","data":"{data}"}}"#),
        format!(r#"{{"image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
    ] {
        let redacted = redactor.redact_json(&opaque).unwrap();
        assert_eq!(redacted.text(), opaque);
    }
    for hidden in [
        format!(r#"{{"signature":"{token}"}}"#),
        format!(r#"{{"data":"{token}","media_type":"text/plain"}}"#),
        format!(r#"{{"url":"data:text/plain;base64,AA {token}"}}"#),
        format!(r#"{{"{token}":1}}"#),
        format!(r#"["\u0067hp_{}"]"#, &token[4..]),
        format!(r#"{{"arguments":"{{\"a\":\"\\u0067hp_{}\"}}"}}"#, &token[4..]),
    ] {
        let redacted = redactor.redact_json(&hidden).unwrap();
        assert!(!redacted.text().contains(&token[4..]), "{hidden}");
        let _: Value = serde_json::from_str(redacted.text()).unwrap();
    }
    let not_json = redactor.redact_json("{\"a\": ");
    assert!(not_json.is_err());
}

#[test]
fn marks_tell_the_rule_and_the_counts_the_bytes() {
    let redactor = with_literals();
    let mut random = RandomText(6);
    let token = format!("ghp_{}", random.draw(b"abcdefghijkLMNOPQRSTUVWXYZ0123456789", 36));
    let text = format!("{token} and {token}, correct-horse-42");
    let redacted = redactor.redact_text(&text).unwrap();
    let marks: Vec<&str> = redacted.text().split(" and ").collect();
    assert!(marks[0].starts_with("‹redacted:github-"), "{}", redacted.text());
    assert!(marks[1].starts_with(marks[0]));
    let counts: Vec<_> = redacted
        .tally()
        .by_rule()
        .map(|(rule, tally)| (rule.to_owned(), tally.marks, tally.bytes))
        .collect();
    assert_eq!(counts[0], ("env".to_owned(), 1, 16));
    assert_eq!((counts[1].1, counts[1].2), (2, 80));
    assert_eq!(redacted.original_length(), text.len());
    assert_eq!(unscanned_mark(12_345), "‹redacted:unscanned:12345 bytes›");
}

#[test]
fn a_user_adds_rules_and_allows_values() {
    let mut random = RandomText(8);
    let (mine, allowed) = (format!("acme_{}", random.hex(32)), format!("acme_{}", random.hex(32)));
    let own = format!(
        "[[rule]]\nid = 'acme'\nregex = 'acme_([0-9a-f]{{32}})'\nkeywords = ['acme_']\nsecret_group = 0\n[allow]\nvalues = ['{allowed}']\nrules = ['jwt']\n"
    );
    let rules = RuleSet::load().unwrap().with_own(&own).unwrap();
    assert!(rules.rules().any(|rule| rule.id == "jwt" && !rule.is_enabled));
    let redactor = Redactor::new(rules, Literals::default(), MarkKey::new([7; 32]));
    let text = format!("{mine} {allowed}");
    let redacted = redactor.redact_text(&text).unwrap();
    assert!(
        redacted.text().starts_with("‹redacted:acme:") && redacted.text().ends_with(&allowed),
        "{}",
        redacted.text()
    );
}
