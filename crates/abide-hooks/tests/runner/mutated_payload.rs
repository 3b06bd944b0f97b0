//! Payloads of real agents, changed by a seed.

use abide_testkit::Random;

/// The agents with hooks, and payloads of each.
pub(crate) const SAMPLES: [(&str, &str); 4] = [
    ("claude", include_str!("../../../abide-agents/src/claude/hooks/samples/session.jsonl")),
    ("codex", include_str!("../../../abide-agents/src/codex/hooks/samples/session.jsonl")),
    ("gemini", include_str!("../../../abide-agents/src/gemini/hooks/samples/session.jsonl")),
    ("opencode", include_str!("../../../abide-agents/src/opencode/hooks/samples/session.jsonl")),
];

/// One of these payloads, changed in some ways.
pub(crate) fn mutated(sample: &str, random: &mut Random) -> Vec<u8> {
    let lines: Vec<&str> = sample.lines().collect();
    let mut bytes = lines[random.index(lines.len())].as_bytes().to_vec();
    for _ in 0..=random.below(2) {
        if bytes.len() < 2 {
            break;
        }
        let at = random.index(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => {
                let end = (at + random.index(40)).min(bytes.len());
                bytes.drain(at..end).for_each(drop);
            }
            3 => {
                // The fields of another payload once more.
                let other = lines[random.index(lines.len())].as_bytes();
                bytes.pop();
                bytes.push(b',');
                bytes.extend_from_slice(&other[1..]);
            }
            4 => {
                // Another type behind a colon.
                let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
                if let Some(at) = colons.get(random.index(colons.len())) {
                    let value =
                        [r#"null,"x":"#, r#"[1,{}],"x":"#, r#""\ud800","x":"#, r#"-0,"x":"#];
                    let value = value[random.index(4)].bytes();
                    bytes.splice(at + 1..at + 1, value).for_each(drop);
                }
            }
            5 => {
                let depth = 1 + random.index(200);
                let deep = format!(r#""d":{}{},"#, "[".repeat(depth), "]".repeat(depth));
                bytes.splice(1..1, deep.bytes()).for_each(drop);
            }
            _ => {
                let mut noise = vec![0; random.index(30)];
                random.fill(&mut noise);
                bytes.splice(at..at, noise).for_each(drop);
            }
        }
    }
    bytes
}
