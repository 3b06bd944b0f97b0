//! Secrets of every kind, planted in what agents print.

use std::collections::BTreeMap;

use abide_secrets::Redactor;

use crate::pattern_sample::sample;
use crate::random_text::RandomText;
use crate::redactor;
use crate::vendor_shapes::{SHAPES, plant};

/// How often each kind is planted.
const ROUNDS: u64 = 4;

/// The text in each form in which an agent's output may have it, redacted, and the form's name.
fn redacted_forms(redactor: &Redactor, text: &str, cut: usize) -> Vec<(&'static str, String)> {
    let plain = |text: String| redactor.redact_text(&text).unwrap().into_text().into_owned();
    let json = |document: String| {
        let redacted =
            redactor.redact_json(&document).unwrap_or_else(|error| panic!("{error}: {document}"));
        serde_json::from_str::<serde_json::Value>(redacted.text()).unwrap();
        // What a reader of the document sees: its strings, decoded.
        strings_of(&serde_json::from_str(redacted.text()).unwrap())
    };
    let quoted = serde_json::to_string(&format!("the output was:\n{text}\ndone")).unwrap();
    let mut escaped = String::from("\"");
    for (number, character) in text.chars().enumerate() {
        match character {
            '/' => escaped.push_str("\\/"),
            _ if number % 5 == 2 && character.is_ascii() => {
                escaped.push_str(&format!("\\u{:04x}", character as u32))
            }
            _ => escaped.push_str(serde_json::to_string(&character).unwrap().trim_matches('"')),
        }
    }
    let mut forms = vec![
        ("text", plain(format!("Here it is: {text}"))),
        ("diff", plain(text.lines().map(|line| format!("+{line}\n")).collect())),
        ("shell", plain(format!("$ cat config\n{text}\n$ "))),
        ("json", json(format!(r#"{{"type":"text","text":{quoted},"n":1}}"#))),
        (
            "nested json",
            json(format!(
                r#"{{"arguments":{}}}"#,
                serde_json::to_string(&format!(r#"{{"content":{quoted}}}"#)).unwrap()
            )),
        ),
        ("stream", {
            let mut stream = redactor.stream();
            let whole = format!("Here it is: {text} and on");
            let mut cut = (12 + cut).min(whole.len());
            while !whole.is_char_boundary(cut) {
                cut -= 1;
            }
            [stream.push(&whole[..cut]), stream.push(&whole[cut..]), stream.finish()].concat()
        }),
    ];
    if !text.contains(['"', '\\']) {
        forms.push(("escapes", json(format!("{{\"text\":{escaped}\"}}"))));
    }
    if !text.contains(['=', ' ', '\n', '"', ':']) {
        forms.push(("env", plain(format!("HOME=/root\nSOME_SETTING={text}\nLANG=C"))));
        forms.push(("yaml", plain(format!("service:\n  setting: \"{text}\"\n"))));
    }
    forms
}

fn strings_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => format!("{text}\n"),
        serde_json::Value::Array(values) => values.iter().map(strings_of).collect(),
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(key, value)| format!("{key}\n{}", strings_of(value))).collect()
        }
        other => other.to_string(),
    }
}

/// Whether a part of the secret that would help anybody is still there.
fn survives(secret: &str, text: &str) -> bool {
    let bytes = secret.as_bytes();
    let part = (bytes.len() / 2).clamp(8, 40);
    bytes.windows(part).any(|window| text.as_bytes().windows(part).any(|other| other == window))
}

#[test]
fn secrets_of_vendors_shapes_are_found() {
    let redactor = redactor();
    let mut random = RandomText(0x005e_c2e7);
    let (mut planted, mut missed) = (0u32, BTreeMap::<String, u32>::new());
    let mut kinds_missed = BTreeMap::<&str, u32>::new();
    for (kind, shape) in SHAPES {
        for _ in 0..ROUNDS {
            let (text, place) = plant(shape, &mut random);
            let secret = &text[place];
            let cut = random.below(text.len());
            for (form, redacted) in redacted_forms(&redactor, &text, cut) {
                planted += 1;
                if secret.lines().any(|line| survives(line, &redacted)) {
                    *missed.entry(format!("{kind} in {form}")).or_default() += 1;
                    *kinds_missed.entry(kind).or_default() += 1;
                }
            }
        }
    }
    let all: u32 = missed.values().sum();
    println!("{} kinds by vendors' shapes, {planted} plantings, {all} missed", SHAPES.len());
    for (kind, times) in &missed {
        println!("  missed {times}: {kind}");
    }
    assert!(SHAPES.len() >= 200, "{}", SHAPES.len());
    assert!(f64::from(all) <= f64::from(planted) * 0.01, "{all} of {planted} missed");
    let always = kinds_missed.values().filter(|times| **times >= 4 * ROUNDS as u32).count();
    assert!(always * 100 <= SHAPES.len(), "{always} kinds are missed everywhere");
}

#[test]
fn every_rule_finds_what_its_pattern_makes() {
    let redactor = redactor();
    let rules = abide_secrets::RuleSet::load().unwrap();
    let mut random = RandomText(99);
    let (mut kinds, mut missed) = (0, Vec::new());
    for rule in rules.rules() {
        kinds += 1;
        let context = rule.id.replace(['-', '_', '.'], " ");
        let found = (0..12).any(|_| {
            let text = sample(rule.pattern, &mut random);
            let text = text.trim_end();
            [format!("{context}\n{text}\n"), format!("{context} x\n{text}\";\n")]
                .iter()
                .any(|text| !redactor.redact_text(text).unwrap().is_unchanged())
        });
        if !found {
            missed.push(rule.id.to_owned());
        }
    }
    println!("{kinds} kinds by patterns, {} missed: {missed:?}", missed.len());
    assert!(kinds + SHAPES.len() >= 400);
    // Samples do without what a pattern may leave out, and a few have no keyword then, or none of the word
    // boundaries that the pattern asks for.
    assert!(missed.len() * 50 <= kinds, "{missed:?}");
}

#[test]
fn a_secret_is_found_wherever_a_stream_is_cut() {
    let redactor = redactor();
    let mut random = RandomText(3);
    for kind in [
        "github personal token",
        "jwt",
        "postgres url",
        "pem key",
        "aws secret key in env",
        "bearer header",
        "slack webhook",
        "telegram bot token",
    ] {
        let shape = SHAPES.iter().find(|(name, _)| *name == kind).unwrap().1;
        let (text, _) = plant(shape, &mut random);
        let whole = format!("before it\n{text}\nafter it, and some more");
        let wanted = redactor.redact_text(&whole).unwrap().into_text();
        assert_ne!(wanted, whole, "{kind}");
        for cut in 1..whole.len() {
            let mut stream = redactor.stream();
            let got =
                [stream.push(&whole[..cut]), stream.push(&whole[cut..]), stream.finish()].concat();
            assert_eq!(got, wanted, "{kind} cut at {cut}");
        }
    }
}

#[test]
fn two_of_a_kind_beside_each_other_are_both_found() {
    let redactor = redactor();
    let mut missed = BTreeMap::new();
    for (kind, shape) in SHAPES {
        let mut random = RandomText(11);
        let (first, secret) = plant(shape, &mut random);
        let (second, other) = plant(shape, &mut random);
        let one = redactor.redact_text(&first).unwrap();
        let alone = redactor.redact_text(&second).unwrap();
        if one.text().contains(&first[secret.clone()])
            || alone.text().contains(&second[other.clone()])
        {
            continue;
        }
        let both = format!("{first}\n{second}\n");
        let masked = redactor.redact_text(&both).unwrap().into_text().into_owned();
        if masked.contains(&first[secret]) || masked.contains(&second[other]) {
            missed.insert(kind, masked);
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
