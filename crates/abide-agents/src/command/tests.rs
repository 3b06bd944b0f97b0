//! What any other command prints.

use abide_model::Timestamp;

use crate::tests::{NOW, line, read, told};
use crate::{AgentKind, AgentReader, PriorSession};

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

/// A text, or the part of one, with the id of the message that it is a part of.
fn part_of(line: &str) -> String {
    let data: serde_json::Value =
        serde_json::from_str(line.strip_prefix("message ").unwrap()).unwrap();
    format!("{} {}", data["abide"]["answer"].as_str().unwrap_or("-"), data["content"])
}

/// A reader of the second process of a session.
fn second() -> AgentReader {
    let before = PriorSession { calls: "2.".to_owned(), ..PriorSession::default() };
    AgentReader::with(KIND, before)
}

#[test]
fn whole_lines_can_be_had_before_the_message_is_complete() {
    let (mut reader, mut told) = (second(), Vec::new());
    let now = Timestamp::from_millis(NOW);
    for piece in [&b"one \xe2\x82"[..], b"\xac two\n\nth", b"ree\n\n", b"\n50%\r60%\r", b"70%\n"] {
        reader.feed(piece, now, &mut |_| {});
        reader.flush(&mut |seen| told.push(line(&seen)));
    }
    reader.feed(b"end", now, &mut |_| {});
    reader.finish(&mut |seen| told.push(line(&seen)));
    told.retain(|line| line.starts_with("message"));
    let parts: Vec<String> = told.iter().map(|line| part_of(line)).collect();
    assert_eq!(
        parts,
        [
            r#"2.text-1 "one € two\n\n""#,
            r#"2.text-1 "three\n\n""#,
            r#"2.text-1 "\n70%\n""#,
            r#"2.text-1 "end""#,
        ]
    );
}

#[test]
fn what_is_printed_between_two_inputs_is_one_message() {
    let (mut reader, mut told) = (second(), Vec::new());
    let now = Timestamp::from_millis(NOW);
    for burst in ["Hello.\nYour name? ", "", "Hello Bob.\nGo on? "] {
        for piece in burst.as_bytes().chunks(3) {
            reader.feed(piece, now, &mut |_| {});
        }
        reader.entered(&mut |seen| told.push(line(&seen)));
    }
    reader.feed(b"one\n", now, &mut |_| {});
    reader.flush(&mut |seen| told.push(line(&seen)));
    reader.feed(b"two\n", now, &mut |_| {});
    reader.entered(&mut |seen| told.push(line(&seen)));
    reader.feed(b"three\n", now, &mut |_| {});
    reader.finish(&mut |seen| told.push(line(&seen)));
    told.retain(|line| line.starts_with("message"));
    let parts: Vec<String> = told.iter().map(|line| part_of(line)).collect();
    assert_eq!(
        parts,
        [
            r#"- "Hello.\nYour name?""#,
            r#"- "Hello Bob.\nGo on?""#,
            r#"2.text-4 "one\n""#,
            r#"2.text-4 "two""#,
            r#"- "three""#,
        ]
    );
}

#[test]
fn a_message_in_parts_is_no_longer_than_one_in_one_piece() {
    let (mut reader, mut told) = (second(), Vec::new());
    let piece = format!("{}\n", "x".repeat(9_999));
    for _ in 0..10 {
        reader.feed(piece.as_bytes(), Timestamp::from_millis(NOW), &mut |_| {});
        reader.flush(&mut |seen| told.push(line(&seen)));
    }
    reader.finish(&mut |seen| told.push(line(&seen)));
    told.retain(|line| line.starts_with("message"));
    let ids: Vec<String> = told.iter().map(|line| part_of(line)[..8].to_owned()).collect();
    let three = |id: &str| vec![id.to_owned(); 3];
    let last = vec!["2.text-4".to_owned()];
    assert_eq!(ids, [three("2.text-1"), three("2.text-2"), three("2.text-3"), last].concat());
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
