//! Output that nobody means well with.

use super::*;

#[test]
fn a_line_of_200_megabytes() {
    for kind in printing_events() {
        for (start, level) in [("{\"type\":[", "warning a line of"), ("x", "info x")] {
            let mut pieces = std::iter::once(start.as_bytes().to_vec())
                .chain((0..200).map(|_| vec![b'['; 1 << 20]))
                .chain([b"\n{\"type\":\"error\",\"message\":\"alive\"}\n".to_vec()]);
            let (most, told) = told_bytes(kind, &mut pieces);
            assert!(most < 10_000 && told[0].starts_with(level), "{told:?}");
            // What comes behind it is read.
            let alive = told.iter().any(|line| line == "error alive");
            assert_eq!(alive, kind.as_str() != "claude");
        }
    }
}

#[test]
fn plain_lines_without_end_are_told_up_to_a_mebibyte() {
    let mut pieces = (0..300).map(|_| "0123456789abcde\n".repeat(1024).into_bytes());
    let (_, told) = told_bytes(kind("claude"), &mut pieces);
    let left_out = 15 * 1024 * 300 - (1 << 20) / 15 * 15;
    let last = format!("warning {left_out} bytes of plain lines were left out");
    assert_eq!(told.last(), Some(&last));
    assert_eq!(told.len(), (1 << 20) / 15 + 1);
}

#[test]
fn deep_nesting_many_fields_and_bytes_that_are_no_text() {
    for kind in AgentKind::all() {
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
