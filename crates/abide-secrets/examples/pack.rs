#![allow(clippy::print_stdout, reason = "it is a program that prints")]
//! Packs the rules: `cargo run -p abide-secrets --example pack -- BETTERLEAKS.TOML VERSION`
//!
//! Reads the upstream rules, `data/triage.txt` and `data/own.toml`; writes `data/rules.txt` and
//! `data/upstream.txt`, and appends rules to the triage that it does not know yet.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use regex_syntax::hir::{Class, Hir, HirKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct UpstreamList {
    rules: Vec<UpstreamRule>,
}

#[derive(Deserialize)]
struct UpstreamRule {
    id: String,
    #[serde(default)]
    regex: String,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    filter: String,
}

#[derive(Deserialize)]
struct OwnList {
    rule: Vec<PackedRule>,
}

#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
struct PackedRule {
    id: String,
    regex: String,
    keywords: Vec<String>,
    #[serde(default)]
    entropy: f64,
    #[serde(default)]
    wordlike: bool,
    #[serde(default)]
    digits: bool,
    #[serde(default)]
    password: bool,
    #[serde(default)]
    wide: bool,
    #[serde(default)]
    generic: bool,
    before: Option<usize>,
    after: Option<usize>,
    #[serde(default, rename = "replaces")]
    _replaces: Vec<String>,
}

const LONGEST: usize = 16 * 1024;
const BEFORE: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(version)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pack BETTERLEAKS.TOML VERSION".into());
    };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let source = std::fs::read_to_string(path)?;
    let upstream: UpstreamList = toml::from_str(&source)?;
    let own: OwnList = toml::from_str(&std::fs::read_to_string(data.join("own.toml"))?)?;

    let mut triage = std::fs::read_to_string(data.join("triage.txt"))?;
    let mut decisions = BTreeMap::new();
    for line in triage.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(decision), Some(id)) = (words.next(), words.next()) else { continue };
        decisions.insert(id.trim_end_matches(':').to_owned(), decision.to_owned());
    }
    let mut ids = BTreeSet::new();
    let mut used = Vec::new();
    for rule in upstream.rules {
        match decisions.get(&rule.id).map(String::as_str) {
            Some("used") => used.push(from_upstream(&rule)?),
            Some(_) => {}
            None => {
                println!("new: {}", rule.id);
                writeln!(triage, "unseen {}", rule.id)?;
            }
        }
        ids.insert(rule.id);
    }
    let (generic, special): (Vec<_>, Vec<_>) = own.rule.into_iter().partition(|rule| rule.generic);
    let mut packed = format!("abide-secrets rules 1\tbetterleaks {version}\n");
    let mut count = 0;
    for rule in special.iter().chain(&used).chain(&generic) {
        pack(rule, &mut packed).map_err(|error| format!("{}: {error}", rule.id))?;
        count += 1;
    }
    let mut listed = format!("# The ids of all rules of betterleaks {version}\n");
    for id in &ids {
        writeln!(listed, "{id}")?;
    }
    std::fs::write(data.join("rules.txt"), &packed)?;
    std::fs::write(data.join("upstream.txt"), listed)?;
    std::fs::write(data.join("triage.txt"), triage)?;
    println!("{count} rules ({} of them upstream's), {} bytes", used.len(), packed.len());
    Ok(())
}

/// A rule of upstream, with what is understood of its filter: the entropy and the words.
fn from_upstream(rule: &UpstreamRule) -> Result<PackedRule, Box<dyn Error>> {
    let entropy = rule
        .filter
        .split_once("entropy(finding[\"secret\"])")
        .and_then(|(_, rest)| {
            rest.trim_start_matches([' ', '<', '='])
                .split(|c: char| !c.is_ascii_digit() && c != '.')
                .next()
        })
        .map_or(Ok(0.0), str::parse::<f64>)?;
    let hir = parse(&rule.regex)?;
    let length = secret_lengths(&hir).unwrap_or(0).max(4);
    // Upstream's bounds refuse one in ten of random hexadecimal keys of 32 digits, or any shorter one.
    let bound = entropy.min(3.0).min(0.68 * (length as f64).log2());
    let words = rule.filter.contains("tokenRatio");
    Ok(PackedRule {
        id: rule.id.trim_end_matches(".1").replace(".2", "-2"),
        regex: rule.regex.clone(),
        keywords: rule.keywords.clone(),
        entropy: (bound * 100.0).round() / 100.0,
        wordlike: words || has_context(&rule.regex),
        ..PackedRule::default()
    })
}

/// Whether the pattern is a vendor's name, something like an assignment, and a value.
fn has_context(regex: &str) -> bool {
    regex.contains(r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)")
}

fn parse(regex: &str) -> Result<Hir, Box<dyn Error>> {
    Ok(regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(regex)?)
}

fn pack(rule: &PackedRule, out: &mut String) -> Result<(), Box<dyn Error>> {
    // A value may be followed by more than upstream thinks of in texts that are no source files.
    let regex =
        rule.regex.replace(r#"(?:\\?['"\x60]|[\s;]|\\[nr]|$)"#, r#"(?:[^A-Za-z0-9_+/=-]|$)"#);
    let hir = parse(&regex)?;
    let keywords: Vec<(bool, String)> =
        rule.keywords.iter().map(|word| cased(word, &regex)).collect();
    for (_, word) in &keywords {
        if word.len() < 3 || word.contains(['\t', '\u{1f}', '\n']) {
            return Err(format!("keyword {word:?}").into());
        }
    }
    let mut starts = Vec::new();
    let complete = prefixes(&hir, &mut starts);
    let anchored = complete
        && !starts.is_empty()
        && starts.iter().all(|start| {
            keywords.iter().any(|(_, word)| start.starts_with(&word.to_ascii_lowercase()))
        });
    let longest = hir.properties().maximum_len().unwrap_or(LONGEST).min(LONGEST);
    // A keyword that is no part of the secret's pattern stands somewhere near it.
    let plain = regex.replace('\\', "").to_ascii_lowercase();
    let near = if keywords.iter().any(|(_, word)| plain.contains(&word.to_ascii_lowercase())) {
        0
    } else {
        BEFORE
    };
    let after = rule.after.unwrap_or(longest + 1 + near);
    let before =
        if anchored { 0 } else { rule.before.unwrap_or_else(|| BEFORE.min(longest) + near) };
    let shortest = secret_lengths(&hir).unwrap_or(0);
    let mut flags = String::new();
    for (flag, is_set) in [
        ('a', anchored),
        ('b', anchored && regex.trim_start_matches("(?i)").starts_with(r"\b")),
        ('i', rule.wide),
        ('w', rule.wordlike),
        ('d', rule.digits),
        ('p', rule.password),
    ] {
        if is_set {
            flags.push(flag);
        }
    }
    if flags.is_empty() {
        flags.push('-');
    }
    let words: Vec<String> = keywords
        .iter()
        .map(|(exact, word)| format!("{}{word}", if *exact { '=' } else { '~' }))
        .collect();
    if regex.contains(['\t', '\n']) {
        return Err("the pattern has a tab or a line end".into());
    }
    writeln!(
        out,
        "{}\t{flags}\t{before}\t{after}\t{shortest}\t{}\t{}\t{regex}",
        rule.id,
        rule.entropy,
        words.join("\u{1f}")
    )?;
    if !anchored {
        println!("floating: {} {:?} before {before} after {after}", rule.id, rule.keywords);
    }
    Ok(())
}

/// The keyword as the pattern writes it, if case counts for the pattern there.
fn cased(word: &str, regex: &str) -> (bool, String) {
    let lower = word.to_ascii_lowercase();
    let plain: String = regex.replace('\\', "");
    let folded = plain.to_ascii_lowercase();
    let Some(place) = folded.find(&lower) else {
        let exact = word.chars().any(|c| c.is_ascii_uppercase());
        return (exact, if exact { word.to_owned() } else { lower });
    };
    if plain[..place].contains("(?i") {
        return (false, lower);
    }
    (true, plain[place..place + lower.len()].to_owned())
}

/// The texts in small letters with which a match may begin. False if they are too many to tell.
fn prefixes(hir: &Hir, out: &mut Vec<String>) -> bool {
    let mut texts = vec![(String::new(), true)];
    extend(hir, &mut texts);
    out.extend(texts.into_iter().map(|(text, _)| text));
    out.len() < 400
}

/// Appends what a match of `hir` may begin with to each text that still goes on.
fn extend(hir: &Hir, texts: &mut Vec<(String, bool)>) {
    if texts.len() > 400 {
        return;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            let text = String::from_utf8_lossy(&literal.0).to_ascii_lowercase();
            for (start, _) in texts.iter_mut().filter(|(_, goes_on)| *goes_on) {
                start.push_str(&text);
            }
        }
        HirKind::Class(class) => {
            let letters = folded(class);
            if letters.len() > 9 {
                texts.iter_mut().for_each(|(_, goes_on)| *goes_on = false);
                return;
            }
            let before = std::mem::take(texts);
            for (start, goes_on) in before {
                if goes_on {
                    texts.extend(letters.iter().map(|letter| (format!("{start}{letter}"), true)));
                } else {
                    texts.push((start, false));
                }
            }
        }
        HirKind::Capture(capture) => extend(&capture.sub, texts),
        HirKind::Concat(parts) => parts.iter().for_each(|part| extend(part, texts)),
        HirKind::Alternation(parts) => {
            let before = std::mem::take(texts);
            for part in parts {
                let mut branch = before.clone();
                extend(part, &mut branch);
                texts.extend(branch);
            }
            texts.sort();
            texts.dedup();
        }
        HirKind::Repetition(repetition) => {
            if repetition.min == 0 && repetition.max == Some(1) {
                let before = texts.clone();
                extend(&repetition.sub, texts);
                texts.extend(before);
            } else {
                for _ in 0..repetition.min.min(8) {
                    extend(&repetition.sub, texts);
                }
                if repetition.max != Some(repetition.min) || repetition.min > 8 {
                    texts.iter_mut().for_each(|(_, goes_on)| *goes_on = false);
                }
            }
        }
    }
}

/// The characters of a class, letters in small.
fn folded(class: &Class) -> BTreeSet<char> {
    let mut letters = BTreeSet::new();
    match class {
        Class::Bytes(bytes) => {
            for range in bytes.ranges() {
                letters.extend(
                    (range.start()..=range.end()).map(|byte| char::from(byte).to_ascii_lowercase()),
                );
            }
        }
        Class::Unicode(unicode) => {
            for range in unicode.ranges() {
                if u32::from(range.end()) - u32::from(range.start()) > 64 {
                    letters.extend('a'..='z');
                } else {
                    letters.extend(
                        (range.start()..=range.end()).map(|letter| letter.to_ascii_lowercase()),
                    );
                }
            }
        }
    }
    letters
}

/// The length of the shortest secret, if none of them has spaces or quotes.
fn secret_lengths(hir: &Hir) -> Option<usize> {
    let mut groups = Vec::new();
    collect_groups(hir, &mut groups);
    if groups.is_empty() {
        groups.push(hir);
    }
    if groups.iter().any(|group| may_break(group)) {
        return None;
    }
    groups
        .iter()
        .filter_map(|group| group.properties().minimum_len())
        .filter(|length| *length > 0)
        .min()
}

fn collect_groups<'h>(hir: &'h Hir, out: &mut Vec<&'h Hir>) {
    match hir.kind() {
        HirKind::Capture(capture) => out.push(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().for_each(|part| collect_groups(part, out))
        }
        HirKind::Repetition(repetition) => collect_groups(&repetition.sub, out),
        _ => {}
    }
}

fn may_break(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.iter().any(|byte| b" \"'`<>\n".contains(byte)),
        HirKind::Class(class) => folded(class).iter().any(|letter| " \"'`<>\n".contains(*letter)),
        HirKind::Capture(capture) => may_break(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(may_break),
        HirKind::Repetition(repetition) => may_break(&repetition.sub),
        HirKind::Empty | HirKind::Look(_) => false,
    }
}
