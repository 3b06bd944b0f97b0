//! Whatever is printed, wherever it is cut.

use proptest::prelude::*;

use super::*;

/// Pieces of which outputs are made: events, plain lines, escapes, nonsense.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        include_str!("../codex/samples/run.jsonl"),
        include_str!("../claude/samples/limited.jsonl"),
        include_str!("../gemini/samples/run.jsonl"),
        include_str!("../opencode/samples/resumed.jsonl"),
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"a\",\"delta\":true}\n",
        "{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"command_execution\"}}\n",
        "rate limit reached, try again in 5s\n",
        "\u{1b}[31mred\u{1b}[0m\r\n",
        "\r",
        "\u{1b}]",
        "{\"type\":",
        "\n",
    ]);
    prop_oneof![
        3 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "\\PC{0,40}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_cut_makes_no_difference(
        pieces in prop::collection::vec(piece(), 0..8),
        lengths in prop::collection::vec(1_usize..200, 1..8),
    ) {
        let output = pieces.concat();
        for kind in AgentKind::all() {
            let whole = read(AgentReader::new(kind), &[&output]);
            let (mut cut, mut rest) = (Vec::new(), output.as_slice());
            for length in lengths.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, behind) = rest.split_at((*length).min(rest.len()));
                cut.push(chunk);
                rest = behind;
            }
            let but_steps = |told: Vec<String>| -> Vec<String> {
                told.into_iter().filter(|line| !line.starts_with("step ")).collect()
            };
            prop_assert_eq!(but_steps(read(AgentReader::new(kind), &cut)), but_steps(whole));
        }
    }

    #[test]
    fn any_text_is_looked_at_for_limits(text in "\\PC{0,200}", number in any::<u64>()) {
        let now = Timestamp::from_millis(NOW);
        for line in [
            text.clone(),
            format!("Error: rate limit exceeded, try again in {number}{text}"),
            format!("usage limit reached|{number}"),
            format!("You've hit your limit · resets {number}:{number}pm ({text})"),
            format!("You've hit your limit · resets nov {number} 3pm (utc)"),
        ] {
            if let Some(limited) = limit_in(&line, now) {
                prop_assert!(limited.text.len() <= 500);
                let wait = limited.resets.map_or(0, |at| at.as_millis() - NOW);
                prop_assert!((0..=40 * 86_400_000).contains(&wait));
            }
        }
    }
}
