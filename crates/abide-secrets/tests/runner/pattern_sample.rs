//! Texts that match a pattern, made at random from it.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::random_text::RandomText;

/// A text that the pattern matches, as far as it has no look-around that forbids it.
pub fn sample(pattern: &str, random: &mut RandomText) -> String {
    let hir = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(pattern)
        .unwrap();
    let mut bytes = Vec::new();
    write(&hir, random, &mut bytes);
    bytes.into_iter().map(char::from).collect()
}

fn write(hir: &Hir, random: &mut RandomText, out: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.extend_from_slice(&literal.0),
        HirKind::Class(Class::Bytes(class)) => {
            let bytes: Vec<u8> =
                class.ranges().iter().flat_map(|range| range.start()..=range.end()).collect();
            // Where anything may stand, something harmless does.
            let usual: Vec<u8> = bytes.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
            let set = if usual.len() > 1 { &usual } else { &bytes };
            let printable: Vec<u8> =
                set.iter().copied().filter(|byte| (b' '..0x7f).contains(byte)).collect();
            let set = if printable.is_empty() { set } else { &printable };
            out.push(set[random.below(set.len())]);
        }
        HirKind::Class(Class::Unicode(class)) => {
            let range = class.ranges()[0];
            out.extend(range.start().to_string().bytes());
        }
        HirKind::Repetition(repetition) => {
            let min = repetition.min;
            let max = repetition.max.unwrap_or(min + 8).min(min + 8);
            // What may be left out is, so that a long secret does not run out of its window.
            let count = if min == 0 && repetition.max == Some(1) {
                random.below(2) as u32
            } else if min == 0 {
                0
            } else {
                min + random.below((max - min + 1) as usize) as u32
            };
            (0..count).for_each(|_| write(&repetition.sub, random, out));
        }
        HirKind::Capture(capture) => write(&capture.sub, random, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, out)),
        HirKind::Alternation(parts) => write(&parts[random.below(parts.len())], random, out),
    }
}
