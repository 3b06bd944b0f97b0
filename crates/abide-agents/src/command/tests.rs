//! What any other command prints.

use abide_model::Timestamp;

use crate::tests::{NOW, line, read, told};
use crate::{AgentKind, AgentReader};

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

/// What was told, without steps: of these there is one a feed.
fn without_steps(told: Vec<String>) -> Vec<String> {
    told.into_iter().filter(|line| !line.starts_with("step ")).collect()
}

/// The text of a message.
fn text_of(line: &str) -> String {
    let data = line.strip_prefix("message ").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["role"], "assistant");
    data["content"].as_str().unwrap().to_owned()
}

#[test]
fn text_is_one_message_without_escapes() {
    let output = "\u{1b}[1mBuilding\u{1b}[0m é😀\r\n  10%\r  50%\r 100%\r\ndone\n\n";
    let whole = without_steps(told(KIND, output));
    assert_eq!(whole.len(), 1);
    assert_eq!(text_of(&whole[0]), "Building é😀\n 100%\ndone");
    let bytes = output.as_bytes();
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        let cut = read(AgentReader::new(KIND), &[left, right]);
        assert_eq!(without_steps(cut), whole, "cut at {at}");
    }
    assert!(without_steps(told(KIND, " \n\u{1b}[0m\t\n")).is_empty());
}

#[test]
fn the_last_line_is_what_it_is_doing() {
    let told = told(KIND, "one\n  two   words \n\n");
    assert_eq!(told[0], "step two words");
    let long = crate::tests::told(KIND, &format!("{}\n", "é".repeat(500)));
    assert_eq!(long[0], format!("step {}…", "é".repeat(119)));
}

#[test]
fn long_text_is_cut_at_lines_and_else_at_characters() {
    let line = format!("{}\n", "x".repeat(999));
    let told = without_steps(told(KIND, &line.repeat(100)));
    let texts: Vec<String> = told.iter().map(|line| text_of(line)).collect();
    assert!(texts.iter().all(|text| text.len() <= 32 << 10 && text.len() % 1000 == 999));
    assert_eq!(texts.join("\n") + "\n", line.repeat(100));

    let unbroken = "€".repeat(40_000);
    let told = without_steps(crate::tests::told(KIND, &unbroken));
    let texts: Vec<String> = told.iter().map(|line| text_of(line)).collect();
    assert!(texts.len() > 3 && texts.iter().all(|text| text.len() <= 32 << 10));
    assert_eq!(texts.concat(), unbroken);
}

#[test]
fn of_very_much_text_the_beginning_and_the_end_are_kept() {
    let mut output = String::new();
    let mut number = 0;
    while output.len() < 3 << 20 {
        output.push_str(&format!("line {number}\n"));
        number += 1;
    }
    let told = without_steps(told(KIND, &output));
    let (last, before) = told.split_last().unwrap();
    let (note, messages) = before.split_last().unwrap();
    let texts: Vec<String> = messages.iter().map(|line| text_of(line) + "\n").collect();
    let start = texts.concat();
    assert!(output.starts_with(&start) && start.len() >= 1 << 20);
    assert!(start.len() <= (1 << 20) + (32 << 10));
    let end = text_of(last) + "\n";
    assert!(output.ends_with(&end) && end.len() == 32 << 10, "{}", end.len());
    let left_out = output.len() - start.len() - end.len();
    assert_eq!(*note, format!("warning {left_out} bytes of the output were left out here"));

    let pieces: Vec<&[u8]> = output.as_bytes().chunks(4099).collect();
    assert_eq!(without_steps(read(AgentReader::new(KIND), &pieces)), told);
}

#[test]
fn what_was_printed_can_be_had_at_once() {
    let mut reader = AgentReader::new(KIND);
    let mut told = Vec::new();
    let now = Timestamp::from_millis(NOW);
    for piece in [&b"one \xe2\x82"[..], b"\xac two\n", b"three"] {
        reader.feed(piece, now, &mut |_| {});
        reader.flush(&mut |seen| told.push(line(&seen)));
    }
    reader.finish(&mut |seen| told.push(line(&seen)));
    told.retain(|line| line.starts_with("message"));
    let texts: Vec<String> = told.iter().map(|line| text_of(line)).collect();
    assert_eq!(texts, ["one", "€ two", "three"]);
}

#[test]
fn limits_in_text_are_seen_when_their_line_ends() {
    let mut reader = AgentReader::new(KIND);
    let mut told = Vec::new();
    let now = Timestamp::from_millis(NOW);
    reader.feed(b"Error: rate limit exceeded, retry after 20", now, &mut |seen| {
        told.push(line(&seen))
    });
    assert!(told.is_empty());
    reader.feed(b" seconds\n", now, &mut |seen| told.push(line(&seen)));
    assert_eq!(
        told[0],
        "limited rate 2025-11-15T09:47:00.000Z Error: rate limit exceeded, retry after 20 seconds"
    );
}
