//! The inputs that mutations start from, made of real bytes. They are committed; inputs that once
//! found a fault stand beside them and are kept.
//!
//! `ABIDE_SEEDS=write cargo test -p abide-fuzz --test corpus seeds` writes them anew.

use std::convert::Infallible;
use std::fs;
use std::io::Read;
use std::sync::Arc;

use abide_fuzz::golden;
use abide_fuzz::input::{CUT, disk, root};
use abide_fuzz::sums::{blocks, mend_slot};
use abide_journal::{BundleReader, BundleRecord, JournalLine, PackWriter, Packs};
use abide_model::{
    Event, NewObject, ObjectBatch, ObjectHash, PageRef, Seq, SessionState, StatePageSink,
};
use abide_transcript::TranscriptWriter;
use abide_workspace::{ChunkList, EntryKind, Snapshot, Tree, TreeEntry};

macro_rules! sample {
    ($agent:literal, $name:literal) => {
        include_str!(concat!("../../../abide-agents/src/", $agent, "/samples/", $name, ".jsonl"))
    };
}

const RECORDS: &[&str] = &[
    r#"{"kind":"turn.started","data":{"turn":1,"agent":"coder"}}"#,
    r#"{"kind":"message.added","data":{"role":"user","content":"Größe: 1e400, \ud83d\ude00\nnext"},"turn":1,"occurred":"2025-11-15T01:20:00+01:00"}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"a\u2028b"},{"type":"tool_call","call":"c1","name":"x","arguments":{}}]}}"#,
    r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"ls"}},"turn":1,"task":"P1.T1","lane":"sub","key":"k/1"}"#,
    r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":123456789012345678901234567890},"lane":"sub"}"#,
    r#"{"kind":"task.created","data":{"task":"P1","title":"one","parent":"P0","depends":["P2"],"dependency_types":{"P2":"soft"}}}"#,
    r#"{"kind":"task.status","data":{"task":"P1","status":"done"}}"#,
    r#"{"kind":"file.touched","data":{"path":"a","op":"rename","to":"b"}}"#,
    r#"{"kind":"usage.recorded","data":{"model":"m","input_tokens":18446744073709551615}}"#,
    r#"{"kind":"turn.finished","data":{"status":"done","usage":{"input_tokens":1,"output_tokens":2}}}"#,
    r#"{"kind":"checkpoint.created","data":{"number":1}}"#,
    r#"{"kind":"session.status","data":{"status":"completed","summary":"a\nb"}}"#,
    "{\"kind\":\"x.own\",\"data\":{ \"spaced\" : null ,\r\n\"twice\":1,\"twice\":{\"a\":[\"\\u0000\",[]]}}}",
];

/// What agents printed; the number says which agent.
const OUTPUTS: &[(u8, &str, &str)] = &[
    (0, "claude", sample!("claude", "run")),
    (0, "claude-limited", sample!("claude", "limited")),
    (1, "codex", sample!("codex", "run")),
    (1, "codex-limited", sample!("codex", "limited")),
    (2, "gemini", sample!("gemini", "run")),
    (3, "opencode", sample!("opencode", "resumed")),
    (3, "opencode-limited", sample!("opencode", "limited")),
    (
        5,
        "text",
        "\u{1b}[1mBuilding\u{1b}[0m\r\n 10%\r 50%\nError: rate limit, try again in 1m30s\n",
    ),
    (5, "limit", "You've hit your limit · resets Nov 20, 3:05pm (UTC)\n"),
    (0, "reached", "Claude AI usage limit reached|1763203600\n"),
    (1, "command", "npx -y @openai/codex exec -m x --json -i a b -- {task}"),
];

/// Plans, by name.
const PLANS: &[(&str, &str)] = &[
    (
        "backlog",
        "{\"v\":1.50,\"backlog\":[{\"type\":\"Phase\",\"id\":\"P1\",\"title\":\"a\\u00e9\",\"status\":\"In Progress\",\"x\":{\"y\":[]},\"milestones\":[{\"type\":\"Milestone\",\"id\":\"P1.M1\",\"title\":\"b\",\"status\":\"Planned\",\"description\":\"\",\"tasks\":[{\"type\":\"Task\",\"id\":\"P1.M1.T1\",\"title\":\"c\",\"status\":\"Planned\",\"subtasks\":[{\"type\":\"Subtask\",\"id\":\"P1.M1.T1.S1\",\"title\":\"d\",\"status\":\"Ready\",\"story_points\":2,\"dependencies\":[],\"context_scope\":\"e\"},{\"type\":\"Subtask\",\"id\":\"P1.M1.T1.S2\",\"title\":\"d\",\"status\":\"Complete\",\"dependencies\":[\"P1.M1.T1.S1\"],\"result\":[1]}]}]}]}]}",
    ),
    (
        "markdown",
        "before\n\n# T\n\nfront\n\n## A\ntext\n\n- [x] one\n  status: failed\n  priority: 3\n  document: a.md\n  result: {\"a\":1}\n\n  depends: no field\n  - [ ] `T1` two (after: four)\n    ```\n    - [ ] code\n    ```\n    \\# text\n## B\n### C\n1. [-] three {#x-1}\n   depends (soft): P1.M1, T1\n* [ ] four\n\n## D\nno task\n",
    ),
    (
        "toml",
        "title = \"t\"\nother = 1979-05-27T07:32:00Z\n[[task]]\nid = \"a\"\ntitle = \"A\"\nstatus = \"done\"\nx.y = [1, {z = nan}]\n[[task]]\ntitle = \"B\"\nparent = \"a\"\ndepends = [\"c\"]\ndependency_types = {c = \"soft\"}\npriority = -3\ndetails = \"\"\"\na\n- [ ] b\"\"\"\ndocuments = [\"d\"]\nresult = \"[1]\"\n[[task]]\nid = \"c\"\ntitle = \"C\"\n[owner]\nname = \"n\"\n",
    ),
    (
        "json",
        "{\"title\":\"t\",\"tasks\":[{\"title\":\"A\",\"x\":1e400,\"tasks\":[{\"id\":\"b\",\"title\":\"B\",\"depends\":[\"c\"],\"dependency_types\":{\"c\":\"needs-result\"},\"status\":\"blocked\",\"priority\":2,\"details\":\"# no\",\"documents\":[\"d\"],\"result\":{\"a\":[]}}]},{\"id\":\"c\",\"title\":\"C (after: d)\"}],\"title\":2}",
    ),
];

#[test]
fn seeds_are_in_the_corpus() {
    let segments = segments();
    let events = events();
    let snapshots = snapshots(&events);
    let state = snapshots.each_ref().map(Vec::as_slice);
    let watermark = golden::store()[6].1;
    for (number, line) in segments.iter().flat_map(|bytes| lines(bytes)).enumerate() {
        seed("line", &format!("line-{number}"), line);
        if let (Ok(line), 1) = (JournalLine::read(line), number % 4) {
            seed("line", &format!("erased-{number}"), line.erased().trim_ascii_end());
        }
    }
    for wish in [0, 7] {
        let files = [watermark, &segments[0], &segments[1]];
        seed("segment", &format!("golden-{wish}"), &input(wish, &files));
    }
    let sealed = golden::store()[4].1;
    let header = lines(&segments[0])[0];
    for wish in [0, 3] {
        seed("sealed", &format!("golden-{wish}"), &input(wish, &[sealed]));
        seed("snapshot", &format!("golden-{wish}"), &input(wish, &state));
        let files = [header, watermark, state[0], state[1]];
        seed("marks", &format!("golden-{wish}"), &input(wish, &files));
    }
    for (name, plan) in PLANS {
        seed("plan", name, plan.as_bytes());
    }
    states(state);
    packs();
    let mut writer = TranscriptWriter::new();
    events.iter().for_each(|event| writer.push(event));
    seed("transcript", "golden", writer.finish().as_bytes());
    seed("bundle", "golden", &input(0, &[golden::BUNDLE]));
    let first = golden::BUNDLE.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let mut plain = golden::BUNDLE[..first].to_vec();
    plain.extend(zstd::stream::decode_all(&golden::BUNDLE[first..]).expect("a frame"));
    seed("bundle", "plain", &input(3, &[&plain]));
    let config = golden::store()[0].1;
    seed("config", "golden", config);
    let limits =
        "\n[retention]\nmax_age = \"30d\"\nmax_count = 9\nmax_size = \"10GB\"\nthin = true\n";
    seed("config", "retention", &[config, limits.as_bytes()].concat());
    for (number, line) in RECORDS.iter().enumerate() {
        seed("record", &format!("event-{number}"), line.as_bytes());
    }
    trees();
    streams();
}

/// An answer of each form: text, thoughts, calls in turns, usage; with the line ends of each sort.
fn streams() {
    let chat = [
        r#"{"id":"r","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Gr\u00f6\u00dfe \"1\" 😀"}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"thinking":[{"text":"a"}]},{"text":"b"}],"refusal":"c"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"g","arguments":{"y":1}}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":3}},"error":{"message":"no"}}"#,
        "[DONE]",
    ];
    let responses = [
        r#"{"type":"response.created","response":{"id":"r","model":"m"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a\n"}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{"}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":2,"summary_index":1,"delta":"b"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":1},"output":[{},{"type":"custom_tool_call","call_id":"d","input":"x"}]}}"#,
        r#"{"type":"error","code":"c","message":"m"}"#,
    ];
    let anthropic = [
        r#"{"type":"message_start","message":{"id":"r","model":"m","content":[],"usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a","more":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"x_delta","text":"c","n":[1]}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let forms = [("chat", &chat[..]), ("responses", &responses[..]), ("anthropic", &anthropic[..])];
    for ((wish, (form, events)), end) in (0_u8..).zip(forms).zip(["\n", "\r\n", "\r"]) {
        // The second asks for narrow limits.
        for (name, wish) in [(form.to_owned(), wish), (format!("{form}-narrow"), 129 + wish)] {
            let mut input = vec![wish, 0, 7, 40, 2];
            for data in events {
                let lines = format!(": {form}{end}event: x{end}data: {data}{end}{end}");
                input.extend(lines.into_bytes());
            }
            seed("stream", &name, &input);
        }
    }
    for (wish, name, output) in OUTPUTS {
        seed("agent", name, &[&[*wish, 0, 6, 40, 255], output.as_bytes()].concat());
    }
}

/// Compares a seed with the file of the corpus, or writes it.
fn seed(target: &str, name: &str, bytes: &[u8]) {
    let dir = crate::fuzz_dir().join("corpus").join(target);
    if std::env::var("ABIDE_SEEDS").is_ok_and(|wish| wish == "write") {
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(name), bytes).expect("a seed");
    }
    let found = fs::read(dir.join(name)).unwrap_or_default();
    assert!(found == bytes, "{target}/{name} is another one: write the seeds anew");
}

fn input(wish: u8, parts: &[&[u8]]) -> Vec<u8> {
    [&[wish], parts.join(CUT).as_slice()].concat()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect()
}

fn segments() -> [Vec<u8>; 2] {
    let mut first = Vec::new();
    let sealed = golden::store()[4].1;
    zstd::stream::read::Decoder::new(sealed)
        .and_then(|mut decoder| decoder.read_to_end(&mut first))
        .expect("frames");
    [first, golden::store()[5].1.to_vec()]
}

fn events() -> Vec<Event> {
    let mut reader = BundleReader::open(golden::BUNDLE).expect("a bundle");
    let mut events = Vec::new();
    while let Some(record) = reader.next().expect("a record") {
        if let BundleRecord::Line(line) = record {
            events.push(line.event().expect("an event"));
        }
    }
    events
}

/// A file of pages.
#[derive(Default)]
struct PageFile(Vec<u8>);

impl StatePageSink for PageFile {
    type Error = Infallible;

    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Infallible> {
        let (at, length) = (self.0.len() as u64, page.len() as u32);
        self.0.extend(length.to_le_bytes());
        self.0.extend(&blake3::hash(&page).as_bytes()[..16]);
        self.0.extend(page);
        Ok(PageRef(at, length))
    }
}

/// The golden snapshots as the fold of today makes them: one of another version is passed over
/// unread.
fn snapshots(events: &[Event]) -> [Vec<u8>; 3] {
    let mut pages = PageFile::default();
    let [first, second] = [0, 1].map(|slot| {
        let (_, golden) = golden::snapshots()[slot];
        let (head, root) = golden.split_at(67);
        let mut root: serde_json::Value = serde_json::from_slice(root).expect("a root");
        let last = Seq(root["seq"].as_u64().expect("a place"));
        let mut state = SessionState::default();
        for event in events.iter().filter(|event| event.seq <= last) {
            state.apply(event);
        }
        let Ok(saved) = state.save(&mut pages);
        root["state"] = serde_json::from_slice(&saved).expect("a state");
        root["live"] = pages.0.len().into();
        let mut bytes = [head, root.to_string().as_bytes()].concat();
        mend_slot(&mut bytes);
        bytes
    });
    [first, second, pages.0]
}

/// The state in a root, events that go on from it, and its pages in the order in which it asks for
/// them.
fn states([root, _, pages]: [&[u8]; 3]) {
    let root: serde_json::Value = serde_json::from_slice(&root[67..]).expect("a root");
    let root = serde_json::to_vec(&root["state"]).expect("JSON");
    let mut state = SessionState::restore(&root).expect("the fold of today");
    let mut parts = vec![root, RECORDS.join("\n").into_bytes()];
    for page in state.away() {
        let PageRef(at, length) = state.page_ref(page).expect("it is away");
        let at = at as usize + 20;
        parts.push(pages[at..at + length as usize].to_vec());
    }
    seed("state", "golden", &parts.join(CUT));
}

/// A pack with a block of each sort, and its index.
fn packs() {
    let disk = disk([("objects/lock", &b""[..])]);
    let packs = Arc::new(Packs::new(disk.clone(), root().join("objects")));
    let writer = PackWriter::open(packs).expect("a writer");
    let text = b"some text that is much like another one, ".repeat(6);
    let hash = writer.put(&text).expect("an object");
    writer.put(b"short").expect("an object");
    let mut batch = ObjectBatch::default();
    for bytes in [&b"one"[..], b"two", b""] {
        batch.push(ObjectHash::of(bytes), bytes);
    }
    writer.put_batch(&batch).expect("a batch");
    let like = [&text[..], b"and more"].concat();
    let like = NewObject { hash: ObjectHash::of(&like), bytes: like, base: Some(hash) };
    writer.put_like(&[like]).expect("a difference");
    writer.sync().expect("a sync");
    drop(writer);
    let pack = disk.bytes(&root().join("objects/00000001.pack")).expect("a pack");
    let mut rows: Vec<(Vec<u8>, u64, u32)> = Vec::new();
    for block in blocks(&pack) {
        for row in 0..block.rows {
            let at = block.at + 44 + row * block.row_size;
            rows.push((pack[at..at + 32].to_vec(), block.at as u64, row as u32));
        }
    }
    rows.sort();
    let mut index = b"abide packidx 1\n".to_vec();
    index.extend((pack.len() as u64).to_le_bytes());
    index.extend((rows.len() as u64).to_le_bytes());
    index.extend(&blake3::hash(&index).as_bytes()[..16]);
    for (hash, offset, row) in rows {
        index.extend(hash);
        index.extend(offset.to_le_bytes());
        index.extend(row.to_le_bytes());
    }
    for wish in [0, 3] {
        seed("pack", &format!("indexed-{wish}"), &input(wish, &[&pack, &index]));
        seed("pack", &format!("golden-{wish}"), &input(wish, &[golden::store()[3].1, b"", &pack]));
    }
}

fn trees() {
    let entry = |name: &[u8], kind| TreeEntry {
        name: name.to_vec(),
        kind,
        mode: 0o644,
        size: 7,
        hash: ObjectHash::of(name),
    };
    let entries = vec![
        entry(b"a", EntryKind::Directory),
        entry(b"b\xff", EntryKind::File),
        entry(b"c d", EntryKind::Link),
        entry(b"e", EntryKind::Large),
    ];
    let tree = Tree { entries }.write();
    seed("tree", "tree", &tree);
    seed("tree", "one", &Tree { entries: vec![entry(b"ab", EntryKind::File)] }.write());
    let chunks = vec![(5, ObjectHash::of(b"a")), (9, ObjectHash::of(b"b"))];
    seed("tree", "chunks", &ChunkList { chunks }.write());
    let snapshot = format!(
        r#"{{"version":1,"tree":"{}","files":3,"directories":1,"bytes":21,"omitted":[{{"path":"x","reason":"too_large","size":9}}],"omissions":1}}"#,
        ObjectHash::of(&tree)
    );
    Snapshot::read(snapshot.as_bytes()).expect("a snapshot");
    seed("tree", "snapshot", snapshot.as_bytes());
}
