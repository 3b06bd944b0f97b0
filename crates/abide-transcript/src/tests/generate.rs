//! Events as nobody would record them.

use abide_model::{Event, EventLimits, Kind, LaneId, Payload, Seq, TaskId, Timestamp, TurnNumber};
use proptest::prelude::*;
use proptest::sample::select;

/// Text that tries to be something else.
pub(crate) fn hostile_text() -> impl Strategy<Value = String> {
    let bait = select(vec![
        "=== RESULT ===",
        "\n=== EXECUTION ===\n",
        "--- Turn 3: x ---",
        "@5 1970-01-01T00:00:00.000Z a {}",
        "\n@end 9 {} AAAAAAAAAAAAAAAAAAAA\n",
        "    ",
        "\n",
        "\r\n",
        "\\u{1b}",
        "\\n",
        "\\",
        "<text>",
        "<json>",
        "\u{1b}[2J",
        "\0",
        "\u{2028}",
        "\u{202e}",
        "\u{feff}",
        "é🦀",
        "<script>alert(1)</script>",
        "\"",
        "a long line that goes on for quite a while so that it is more than a hundred bytes long, which makes it a text of its own",
    ]);
    prop::collection::vec(prop_oneof![3 => bait.prop_map(str::to_owned), 1 => "\\PC{0,12}"], 0..6)
        .prop_map(|parts| parts.concat())
}

/// A JSON string as some writer would write it.
fn json_string() -> impl Strategy<Value = String> {
    (hostile_text(), 0..5_u8).prop_map(|(text, way)| {
        let plain = serde_json::to_string(&text).unwrap();
        match way {
            0 => plain.replace('/', "\\/"),
            1 | 2 => {
                let mut out = String::new();
                for c in plain.chars() {
                    if c.is_ascii() {
                        out.push(c);
                    } else {
                        for unit in c.encode_utf16(&mut [0; 2]) {
                            let hex = format!("\\u{unit:04x}");
                            out.push_str(&if way == 1 { hex } else { hex.replace('e', "E") });
                        }
                    }
                }
                out
            }
            3 => format!("\"\\ud800{}", plain.get(1..).unwrap()),
            _ => plain,
        }
    })
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => json_string(),
        1 => select(vec!["null", "true", "1e999", "-0.0", "123456789012345678901234567890", "\"\""])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(" ,\t"))),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let name = prop_oneof![
        json_string(),
        select(vec!["\"a\"", "\"content\"", "\"text\"", "\"a\\u0062\"", "\"x/~y\""])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec((name, inner), 0..4).prop_map(|fields| {
        let fields: Vec<_> =
            fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{{{}}}", fields.join(","))
    })
}

/// Data that is what its kind calls for, with hostile strings in it.
fn fitting() -> impl Strategy<Value = (String, String)> {
    let templates = vec![
        (
            "session.created",
            r#"{"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":$,"agent":$}"#,
        ),
        ("session.status", r#"{"status":"completed","reason":$,"summary":$}"#),
        ("session.status", r#"{"status":"idle","reason":$}"#),
        ("writer.opened", r#"{"epoch":1,"by":$}"#),
        ("writer.closed", "{}"),
        ("turn.started", r#"{"agent":$}"#),
        ("turn.started", r#"{"turn":3,"agent":$,"role":"arbiter"}"#),
        ("turn.decided", r#"{"selected":$,"reason":$}"#),
        ("turn.finished", r#"{"status":$,"usage":{"input_tokens":5}}"#),
        ("turn.finished", r#"{"turn":3}"#),
        ("message.added", r#"{"role":$,"content":$}"#),
        ("message.added", r#"{"role":"user","content":$}"#),
        (
            "message.added",
            r#"{"role":"assistant","content":[{"type":"text","text":$},{"type":"thinking","thinking":$},{"type":"tool_call","call":"c","name":$,"arguments":{"command":$}},{"type":"image","data":$}]}"#,
        ),
        ("tool.called", r#"{"call":"c","name":$,"arguments":{"command":$,"other":$}}"#),
        ("tool.called", r#"{"call":$,"name":$}"#),
        ("tool.finished", r#"{"call":"c","ok":false,"result":$}"#),
        ("task.created", r#"{"task":$,"title":$}"#),
        ("task.status", r#"{"task":"t","status":"complete","reason":$,"result":{"a":$}}"#),
        ("file.touched", r#"{"path":$,"op":"write"}"#),
        ("file.touched", r#"{"path":$,"op":"rename","to":$}"#),
        ("permission.asked", r#"{"call":"c","title":$,"options":[{"id":$,"name":$}]}"#),
        ("permission.answered", r#"{"outcome":$,"kind":$}"#),
        ("log.recorded", r#"{"level":$,"text":$}"#),
        ("context.compacted", r#"{"first":1,"last":2,"summary":$}"#),
        ("session.rewound", r#"{"to":1}"#),
        ("checkpoint.created", r#"{"label":$}"#),
        ("api.finished", r#"{"model":$,"error":$,"usage":{"output_tokens":7}}"#),
        ("artifact.recorded", r#"{"name":$,"kind":$,"ok":false}"#),
        ("limit.observed", r#"{"name":$,"remaining":3}"#),
        ("payload.erased", r#"{"seq":1,"reason":$}"#),
    ];
    (select(templates), prop::collection::vec(json_string(), 4)).prop_map(
        |((kind, template), strings)| {
            let mut strings = strings.iter().cycle();
            let parts: Vec<_> = template.split('$').collect();
            let mut data = parts[0].to_owned();
            for part in &parts[1..] {
                data.push_str(strings.next().unwrap());
                data.push_str(part);
            }
            (kind.to_owned(), data)
        },
    )
}

/// An event of any kind, its data fitting or not.
fn event() -> impl Strategy<Value = Event> {
    let foreign = (
        select(Kind::VOCABULARY.iter().copied().chain(["x.y", "a"]).collect::<Vec<_>>())
            .prop_map(str::to_owned),
        object(json_value()),
    );
    let name = || {
        prop::option::weighted(0.2, hostile_text().prop_filter("empty", |text| !text.is_empty()))
    };
    (
        prop_oneof![3 => fitting(), 1 => foreign],
        (prop::option::weighted(0.2, 0..4_u64), name(), name(), name()),
        prop::option::weighted(0.1, 0..1_000_000_i64),
        prop::bool::weighted(0.05),
    )
        .prop_map(|((kind, data), (turn, task, lane, key), occurred, erased)| Event {
            seq: Seq(0),
            at: Timestamp::from_millis(0),
            occurred: occurred.map(Timestamp::from_millis),
            kind: Kind::new(&kind).unwrap(),
            turn: turn.map(TurnNumber),
            task: task.map(TaskId),
            lane: lane.map(LaneId),
            key,
            data: (!erased).then(|| Payload::new(&data, &EventLimits::default()).unwrap()),
        })
}

/// A session's worth of them, with gaps in their numbers.
pub(crate) fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((event(), 1..3_u64, 0..5000_i64), 0..most).prop_map(|events| {
        let (mut seq, mut at) = (0, 1_763_169_600_000);
        events
            .into_iter()
            .map(|(mut event, gap, pause)| {
                seq += gap;
                at += pause;
                event.seq = Seq(seq);
                event.at = Timestamp::from_millis(at);
                event
            })
            .collect()
    })
}
