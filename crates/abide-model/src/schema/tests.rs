//! The table against the types of the facts, both ways, and the page that is made from it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::{Value, json};

use super::*;
use crate::{
    AgentObservation, ApiCall, ApiResult, ArbiterDecision, Artifact, ArtifactCounts, Checkpoint,
    Compaction, ContextPin, ContextRestored, DependencyResolution, Erasure, EventLimits, Fact,
    FileChanges, FileTouch, FilesRestored, GitState, Kind, LimitObservation, LogRecord, Manifest,
    ManifestTask, Message, ModelConfiguration, NewEvent, Payload, PermissionAnswered,
    PermissionAsked, PermissionOption, Recovery, ResourceSample, Rewind, RunEnd, RunStart,
    SessionFields, SessionParent, SourceDocument, SourceProgress, SourceRecord, StatusChange,
    TaskChange, TaskCreated, TaskDependency, TaskListRecord, TaskStatusChange, Thinning, ToolCall,
    ToolResult, TurnEnd, TurnStart, Usage, WorkspaceCounts, WriterOpened,
};

thread_local! {
    /// The fields that serde asked for.
    static ASKED: RefCell<Option<&'static [&'static str]>> = const { RefCell::new(None) };
}

/// Notes the fields of a struct, and gives none.
struct FieldRecorder;

impl<'de> Deserializer<'de> for FieldRecorder {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        ASKED.set(Some(fields));
        Err(de::Error::custom("noted"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields that a type reads.
fn fields_of<'de, T: Deserialize<'de>>() -> BTreeSet<&'static str> {
    ASKED.set(None);
    let _ = T::deserialize(FieldRecorder);
    ASKED.take().expect("serde's derive hands over the fields").iter().copied().collect()
}

fn described(fields: &[FieldDescription]) -> BTreeSet<&'static str> {
    let names: BTreeSet<_> = fields.iter().map(|field| field.name).collect();
    assert_eq!(names.len(), fields.len(), "each field once: {names:?}");
    names
}

/// The fields of each kind's type.
fn fields_by_kind() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    // serde does not tell the fields of a flattened struct.
    let with = |name: &'static str, mut fields: BTreeSet<&'static str>| {
        fields.insert(name);
        fields
    };
    BTreeMap::from([
        ("session.created", with("session", fields_of::<SessionFields>())),
        ("session.updated", fields_of::<SessionFields>()),
        ("session.status", fields_of::<StatusChange>()),
        ("session.rewound", fields_of::<Rewind>()),
        ("writer.opened", fields_of::<WriterOpened>()),
        ("writer.closed", BTreeSet::new()),
        ("run.started", fields_of::<RunStart>()),
        ("run.finished", fields_of::<RunEnd>()),
        ("agent.observed", fields_of::<AgentObservation>()),
        ("turn.started", fields_of::<TurnStart>()),
        ("turn.decided", fields_of::<ArbiterDecision>()),
        ("turn.finished", fields_of::<TurnEnd>()),
        ("message.added", fields_of::<Message>()),
        ("api.called", fields_of::<ApiCall>()),
        ("api.finished", fields_of::<ApiResult>()),
        ("tool.called", fields_of::<ToolCall>()),
        ("tool.finished", fields_of::<ToolResult>()),
        ("permission.asked", fields_of::<PermissionAsked>()),
        ("permission.answered", fields_of::<PermissionAnswered>()),
        ("plan.recorded", fields_of::<TaskListRecord>()),
        ("task.created", fields_of::<TaskCreated>()),
        ("task.changed", fields_of::<TaskChange>()),
        ("task.status", fields_of::<TaskStatusChange>()),
        ("file.touched", fields_of::<FileTouch>()),
        ("artifact.recorded", fields_of::<Artifact>()),
        ("checkpoint.created", fields_of::<Checkpoint>()),
        ("checkpoint.thinned", fields_of::<Thinning>()),
        ("files.restored", fields_of::<FilesRestored>()),
        ("context.compacted", fields_of::<Compaction>()),
        ("context.restored", fields_of::<ContextRestored>()),
        ("context.pinned", fields_of::<ContextPin>()),
        ("usage.recorded", with("id", with("model", fields_of::<Usage>()))),
        ("limit.observed", fields_of::<LimitObservation>()),
        ("model.configured", fields_of::<ModelConfiguration>()),
        ("git.observed", fields_of::<GitState>()),
        ("resources.sampled", fields_of::<ResourceSample>()),
        ("dependencies.resolved", fields_of::<DependencyResolution>()),
        ("log.recorded", fields_of::<LogRecord>()),
        ("recovery.performed", fields_of::<Recovery>()),
        ("payload.erased", fields_of::<Erasure>()),
        ("source.recorded", fields_of::<SourceRecord>()),
        ("source.read", fields_of::<SourceProgress>()),
    ])
}

#[test]
fn the_table_has_every_kind_and_every_field_and_no_other() {
    let kinds: Vec<&str> = KIND_DESCRIPTIONS.iter().map(|described| described.kind).collect();
    assert_eq!(kinds, Kind::VOCABULARY);
    let types = fields_by_kind();
    for kind in KIND_DESCRIPTIONS {
        assert_eq!(Some(&described(kind.fields)), types.get(kind.kind), "{}", kind.kind);
        let own = Kind::new(kind.kind).unwrap();
        assert_eq!(kind.writer == KindWriter::Store, own.is_reserved(), "{}", kind.kind);
        assert!(kind.meaning.ends_with('.') && !kind.meaning.contains('\n'));
        assert!(kind.read_fields().all(|field| field.meaning.ends_with(['.', '…'])));
    }
    assert_eq!(kinds.len(), types.len());
}

#[test]
fn the_objects_inside_have_every_field_and_no_other() {
    let types = BTreeMap::from([
        ("usage", fields_of::<Usage>()),
        ("git state", fields_of::<GitState>()),
        ("resources", fields_of::<ResourceSample>()),
        ("parent", fields_of::<SessionParent>()),
        ("source document", fields_of::<SourceDocument>()),
        ("permission option", fields_of::<PermissionOption>()),
        ("artifact counts", fields_of::<ArtifactCounts>()),
        ("manifest", fields_of::<Manifest>()),
        ("manifest task", fields_of::<ManifestTask>()),
        ("dependency", fields_of::<TaskDependency>()),
        ("workspace", fields_of::<WorkspaceCounts>()),
        ("file changes", fields_of::<FileChanges>()),
        // Read by hand, see `Marks`.
        (
            "marks",
            BTreeSet::from([
                "form",
                "answer",
                "partial",
                "replaces",
                "provisional",
                "source",
                "redacted",
            ]),
        ),
        ("source record", fields_of::<SourceRecord>()),
        // Written by abide's redaction, and read by people.
        ("redacted secrets", BTreeSet::from(["bytes", "rules"])),
    ]);
    let records: BTreeMap<_, _> = KIND_DESCRIPTIONS
        .iter()
        .flat_map(KindDescription::records)
        .map(|record| (record.name, described(record.fields)))
        .collect();
    assert_eq!(records, types);
}

/// A value of a type, other than its default.
fn example(value: &ValueType) -> Value {
    match value {
        ValueType::Text => json!("x"),
        ValueType::OpenWord(words) | ValueType::Word(words) => json!(words.last()),
        ValueType::Flag => json!(true),
        ValueType::Number { .. } => json!(7),
        ValueType::Time => json!("2026-01-02T03:04:05.678Z"),
        ValueType::SessionId => json!("019a8519-0200-7503-9294-f2065da4d5ae"),
        ValueType::Hash => json!("ab".repeat(32)),
        ValueType::Json => json!(["any"]),
        ValueType::List(each) => json!([example(each)]),
        ValueType::Map(each) => json!({ "k": example(each) }),
        ValueType::Tuple(each) => each.iter().map(example).collect(),
        ValueType::Record(record) => whole(record.fields),
    }
}

/// An object with every field.
fn whole(fields: &[FieldDescription]) -> Value {
    let fields = fields.iter().map(|field| (field.name.to_owned(), example(&field.value)));
    Value::Object(fields.collect())
}

/// Is this data of the kind, as the fold says it?
fn decodes(kind: &Kind, data: &Value) -> bool {
    let data = Payload::new(&data.to_string(), &EventLimits::default()).unwrap();
    let decodes = Fact::decode(kind, &data).is_ok();
    assert_eq!(data_mismatch(kind, &data).is_none(), decodes, "{kind} {}", data.as_str());
    decodes
}

/// Values that no field of another type takes.
fn others(value: &ValueType) -> Vec<Value> {
    let all = [json!("zz"), json!(true), json!(-1.5), json!([1, true]), json!({"k": [[]]})];
    let fits = |other: &Value| match value {
        ValueType::Json => true,
        ValueType::Text | ValueType::OpenWord(_) => other.is_string(),
        ValueType::Flag => other.is_boolean(),
        ValueType::Record(_) => other.is_object(),
        ValueType::Map(each) => other.is_object() && matches!(each, ValueType::Json),
        _ => false,
    };
    all.into_iter().filter(|other| !fits(other)).collect()
}

/// Checks each field of an object that stands in the data of a kind, and those of objects in it.
fn check_fields(
    kind: &Kind,
    fields: &'static [FieldDescription],
    object: &Value,
    place: &dyn Fn(Value) -> Value,
) {
    for field in fields {
        let name = field.name;
        let with = |value: Value| {
            let mut object = object.clone();
            object[name] = value;
            place(object)
        };
        let mut without = object.clone();
        without.as_object_mut().unwrap().remove(name);
        let may_miss = match field.presence {
            FieldPresence::Required => false,
            // The fold accepts it, and the fact does not need to.
            FieldPresence::Unless(_) => continue,
            FieldPresence::Optional | FieldPresence::Defaulted => true,
        };
        assert_eq!(decodes(kind, &place(without)), may_miss, "{kind} without {name}");
        let may_be_null =
            field.presence == FieldPresence::Optional || matches!(field.value, ValueType::Json);
        assert_eq!(decodes(kind, &with(Value::Null)), may_be_null, "{kind} with {name} null");
        for other in others(&field.value) {
            assert!(!decodes(kind, &with(other.clone())), "{kind} with {name} {other}");
        }
        if let ValueType::Word(words) | ValueType::OpenWord(words) = field.value {
            assert!(words.iter().all(|word| decodes(kind, &with(json!(word)))), "{kind} {name}");
        }
        if let ValueType::Number { least, most } = field.value {
            for (number, fits) in [
                (i128::from(least), true),
                (i128::from(most), true),
                (i128::from(least) - 1, false),
                (i128::from(most) + 1, false),
            ] {
                // A `Value` does not hold such a number.
                let text = place({
                    let mut object = object.clone();
                    object[name] = json!("@");
                    object
                })
                .to_string()
                .replace("\"@\"", &number.to_string());
                let data = Payload::new(&text, &EventLimits::default()).unwrap();
                assert_eq!(Fact::decode(kind, &data).is_ok(), fits, "{kind} {text}");
                assert_eq!(data_mismatch(kind, &data).is_none(), fits, "{kind} {text}");
            }
        }
        if let Some(record) = field.value.record() {
            let inner = whole(record.fields);
            let place = |object: Value| {
                with(match field.value {
                    ValueType::List(_) => json!([object]),
                    _ => object,
                })
            };
            check_fields(kind, record.fields, &inner, &place);
        }
    }
}

/// Every field is read, as what the table says: it is written again, and data without it, with
/// `null` or with another type is decoded or refused as told.
#[test]
fn a_field_is_what_the_table_says() {
    for described in KIND_DESCRIPTIONS {
        let kind = Kind::new(described.kind).unwrap();
        let data = whole(described.fields);
        assert!(decodes(&kind, &data), "{kind}: {data}");
        check_fields(&kind, described.fields, &data, &|object| object);
    }
}

fn mismatch(kind: &str, data: &str) -> Option<String> {
    let data = Payload::new(data, &EventLimits::default()).unwrap();
    data_mismatch(&Kind::new(kind).unwrap(), &data)
}

#[test]
fn a_mismatch_says_which_field() {
    for (kind, data, told) in [
        ("message.added", r#"{"role":5,"content":"x"}"#, "data.role: expected a string, not 5"),
        ("message.added", r#"{"role":"user"}"#, "data.content: missing"),
        (
            "tool.called",
            r#"{"call":"c","name":["a"]}"#,
            "data.name: expected a string, not [\"a\"]",
        ),
        (
            "task.status",
            r#"{"task":"a","status":"done"}"#,
            "data.status: expected one of `planned`, `researching`, `implementing`, `retrying`, `complete`, `failed`, `blocked`, `obsolete`, not \"done\"",
        ),
        (
            "api.finished",
            r#"{"usage":{"input_tokens":-1}}"#,
            "data.usage.input_tokens: expected a whole number, not -1",
        ),
        (
            "task.created",
            r#"{"task":"a","depends":["b",2]}"#,
            "data.depends[1]: expected a string, not 2",
        ),
        ("tool.finished", r#"{"call":"a","call":"b"}"#, "data.call: given twice"),
        ("log.recorded", r#"{"text":"\ud800"}"#, "data.text: expected a string, not \"\\ud800\""),
    ] {
        assert_eq!(mismatch(kind, data).as_deref(), Some(told));
    }
    assert_eq!(mismatch("message.added", r#"{"role":"assistant","content":null}"#), None);
    assert_eq!(mismatch("x.own", "{}"), None);
}

#[test]
fn unknown_names_are_told_with_what_is_meant() {
    let unknown = |line: &str| {
        NewEvent::parse_naming(line.as_bytes(), &EventLimits::default())
            .unwrap()
            .1
            .map(|unknown| *unknown)
            .unwrap_or_default()
    };
    assert!(unknown(r#"{"kind":"x.own","data":{"anything":1}}"#).is_empty());
    let known =
        r#"{"kind":"message.added","data":{"role":"user","\u0063ontent":[{"contents":1}]}}"#;
    assert!(unknown(known).is_empty());
    let kind = unknown(r#"{"kind":"mesage.added","data":{"role":"user"}}"#);
    assert_eq!(kind.kind.as_deref(), Some("mesage.added"));
    assert_eq!(kind.meant, [("mesage.added".to_owned(), "message.added")]);
    let field = unknown(
        r#"{"data":{"role":"user","contents":{"role":1},"contents":2,"zzz":3},"kind":"message.added"}"#,
    );
    assert_eq!(field.fields, ["contents", "zzz"]);
    assert_eq!(field.meant, [("contents".to_owned(), "content")]);
    let many: String = (0..50).map(|n| format!(",\"f{n}\":1")).collect();
    let many = unknown(&format!("{{\"kind\":\"log.recorded\",\"data\":{{\"text\":\"\"{many}}}}}"));
    assert_eq!(many.fields.len(), 20);
}

/// The page `docs/events.md`.
fn page() -> String {
    let mut page = String::from(PAGE_HEAD);
    for kind in KIND_DESCRIPTIONS {
        let _ = write!(page, "\n### {}\n\n{}\n", kind.kind, kind.meaning);
        if kind.writer != KindWriter::Anyone {
            let _ = writeln!(page, "Written by {}.", kind.writer.as_str());
        }
        fields_table(&mut page, kind.fields);
        if !kind.also.is_empty() {
            page.push_str("\nWhat models' APIs have in a message is known too:\n");
            fields_table(&mut page, kind.also);
        }
    }
    page.push_str("\n## Objects in them\n");
    let mut records: Vec<&RecordDescription> = Vec::new();
    for record in KIND_DESCRIPTIONS.iter().flat_map(KindDescription::records) {
        if !records.iter().any(|other| other.name == record.name) {
            records.push(record);
        }
    }
    records.sort_by_key(|record| record.name);
    for record in records {
        let _ = write!(page, "\n### {}\n\n{}\n", record.name, record.meaning);
        fields_table(&mut page, record.fields);
    }
    page
}

fn fields_table(page: &mut String, fields: &[FieldDescription]) {
    if fields.is_empty() {
        page.push_str("\nIts data is empty.\n");
        return;
    }
    page.push_str("\n| Field | Type | Required | Meaning |\n| --- | --- | --- | --- |\n");
    for field in fields {
        let words = match field.value.record() {
            Some(record) => {
                let link = format!("[{}](#{})", record.name, record.name.replace(' ', "-"));
                field.value.in_words().replace(record.name, &link)
            }
            None => field.value.in_words(),
        };
        let required = match field.presence {
            FieldPresence::Required => "yes".to_owned(),
            FieldPresence::Unless(other) => format!("unless `{other}` is there"),
            FieldPresence::Optional => String::new(),
            FieldPresence::Defaulted => "not `null`".to_owned(),
        };
        let _ = writeln!(page, "| `{}` | {words} | {required} | {} |", field.name, field.meaning);
    }
}

const PAGE_HEAD: &str = "\
# Events

<!-- Made from the table in crates/abide-model/src/schema: ABIDE_DOCS=write cargo test -p abide-model schema:: -->

A session is a list of events. A program writes them as lines of JSON to `abide record`, and reads them with
`abide export` or `abide show --json`. `abide schema` prints this page's tables, `abide schema KIND` one of them, and
`--json` makes a JSON Schema (draft 2020-12) of them.

```text
{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"hello\"},\"key\":\"m-1\",\"task\":\"P1.T2\"}
```

| Field | Type | Required | Meaning |
| --- | --- | --- | --- |
| `kind` | string | yes | What happened: one of the kinds below, or one of your own that begins with `x.`. Words of `a-z`, `0-9`, `_` and `-`, joined by dots; at most 64 characters. |
| `data` | object | yes | The fields of the kind. |
| `key` | string | | Your idempotency key: an event with the same key is recorded once. |
| `occurred` | RFC 3339 time | | When it happened, by your clock. |
| `turn` | whole number | | The turn it belongs to. |
| `task` | string | | The task it belongs to. |
| `lane` | string | | The lane it belongs to: one for each subagent or parallel job. |

An event that is read has two more fields in front: `seq`, its number in the session, and `at`, when it was recorded. One whose
data was erased has `\"data\":null,\"erased\":true`.

Data is kept as it is written, whatever it holds, except that marks such as `‹redacted:github-token:7f3a91c2›` take the place of
[secrets](secrets.md). What was redacted is counted in the field `abide` of the data, of whatever kind:
`\"abide\":{\"redacted\":{\"bytes\":1234,\"rules\":{\"github-token\":1}}}` has the length of the data before, and the number of marks by rule.

A kind or a field that is not on this page is kept too, and the answer to its line
names it (`unknown`), because it may be a mistake. Kinds that begin with `x.` are yours: nothing is said about them. Data that does not
match its kind is kept and marked (`\"anomaly\":\"malformed\"`), or refused with `--strict`. So is an event that does not fit those before
it: `unknown_call`, for example, means that no such call is open, because it was never made or already has a result. New versions of
abide add kinds and fields; they remove none.

In the tables, a field that is not required may be left out or `null`; one that says \"not `null`\" has a default and may only be left out.

## Kinds
";

#[test]
fn the_page_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let page = page();
    if std::env::var("ABIDE_DOCS").is_ok_and(|wish| wish == "write") {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/events.md differs from the table: ABIDE_DOCS=write cargo test -p abide-model schema::"
    );
}
