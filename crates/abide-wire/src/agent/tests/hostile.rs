//! Output that nobody means well with.

use super::*;

/// How many bytes of messages, results and notes were told.
fn told_bytes(kind: AgentKind, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> (usize, Vec<String>) {
    let mut reader = AgentReader::new(kind);
    let (mut most, mut last) = (0, Vec::new());
    let mut see = |seen: Seen| {
        let line = line(&seen);
        most = most.max(line.len());
        last.push(line.chars().take(120).collect::<String>());
    };
    for piece in pieces {
        reader.feed(&piece, Timestamp::from_millis(NOW), &mut see);
    }
    reader.finish(&mut see);
    (most, last)
}

#[test]
fn a_line_of_200_megabytes() {
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Gemini] {
        for (start, level) in [("{\"type\":[", "warning a line of"), ("x", "info x")] {
            let mut pieces = std::iter::once(start.as_bytes().to_vec())
                .chain((0..200).map(|_| vec![b'['; 1 << 20]))
                .chain([b"\n{\"type\":\"error\",\"message\":\"alive\"}\n".to_vec()]);
            let (most, told) = told_bytes(kind, &mut pieces);
            assert!(most < 10_000 && told[0].starts_with(level), "{told:?}");
            // What comes behind it is read.
            let alive = told.iter().any(|line| line == "error alive");
            assert_eq!(alive, kind != AgentKind::Claude);
        }
    }
}

#[test]
fn an_output_of_100_megabytes_is_still_that_result() {
    let start = b"{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"c\",\"aggregated_output\":\"";
    let mut pieces = std::iter::once(start.to_vec())
        .chain((0..100).map(|_| vec![b'y'; 1 << 20]))
        .chain([b"\",\"exit_code\":0}}\n".to_vec()]);
    let (most, told) = told_bytes(AgentKind::Codex, &mut pieces);
    assert!(most < 70_000);
    assert!(told[2].starts_with("finished i ok {\"exit_code\":0,\"output\":\"yyy"), "{told:?}");
}

#[test]
fn a_message_of_many_pieces_is_cut_with_a_mark() {
    let piece = format!(
        "{{\"type\":\"message\",\"role\":\"assistant\",\"delta\":true,\"content\":\"{}\"}}\n",
        "z".repeat(1 << 20)
    );
    let mut reader = AgentReader::new(AgentKind::Gemini);
    for _ in 0..20 {
        reader.feed(piece.as_bytes(), Timestamp::from_millis(NOW), &mut |_| panic!("too early"));
    }
    let mut texts = Vec::new();
    reader.finish(&mut |seen| {
        if let Observed::Message { data } = seen.what {
            texts.push(data.get().to_owned());
        }
    });
    assert_eq!(texts.len(), 1);
    assert!(texts[0].len() < (8 << 20) + 100);
    assert!(texts[0].ends_with(&format!("… [{} bytes left out]\"}}", (12 << 20) + 64)));
}

#[test]
fn plain_lines_without_end_are_told_up_to_a_mebibyte() {
    let mut pieces = (0..300).map(|_| "0123456789abcde\n".repeat(1024).into_bytes());
    let (_, told) = told_bytes(AgentKind::Claude, &mut pieces);
    let left_out = 15 * 1024 * 300 - (1 << 20) / 15 * 15;
    let last = format!("warning {left_out} bytes of plain lines were left out");
    assert_eq!(told.last(), Some(&last));
    assert_eq!(told.len(), (1 << 20) / 15 + 1);
}

#[test]
fn deep_nesting_many_fields_and_bytes_that_are_no_text() {
    for kind in AgentKind::ALL {
        let deep = format!(
            "{{\"type\":\"assistant\",\"a\":{}{}}}\n",
            "[".repeat(500_000),
            "]".repeat(500_000)
        );
        let wide = format!("{{\"type\":\"user\"{}}}\n", ",\"k\":1".repeat(500_000));
        let calls = format!(
            "{{\"type\":\"item.started\",\"item\":{{\"type\":\"mcp_tool_call\",\"id\":\"d\",\"arguments\":{}{}}}}}\n",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        for output in [deep, wide, calls] {
            told(kind, &output);
        }
        let bytes: Vec<u8> =
            (0..=255).chain(*b"\n{\"type\":\"\xff\xfe\"}\n{\"\xc3\x28\":\"").collect();
        let whole = read(AgentReader::new(kind), &[&bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let cut = read(AgentReader::new(kind), &single);
        let but_steps = |told: Vec<String>| -> Vec<String> {
            told.into_iter().filter(|line| !line.starts_with("step ")).collect()
        };
        assert_eq!(but_steps(whole), but_steps(cut));
    }
}

#[test]
fn halves_of_surrogate_pairs_do_not_reach_a_record() {
    let output = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"X","input":{"a":"\ud800"}}]}}"#;
    let told = told(AgentKind::Claude, output);
    assert_eq!(told[1], r#"called c X {"a":"\ufffd"}"#);
    assert!(told[0].contains(r#""a":"\ufffd""#));
}
