//! Filling: line feeds behind the last line, which nobody takes for anything else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{BundleReader, FillingPolicy, LocalOptions, LocalStore, LocalWriter};
use abide_model::{
    AnomalyPolicy, AppendError, Durability, EventRange, NewEvent, NewSession, ReadFinding, Seq,
    SessionId, SessionWriter, Store,
};
use abide_testkit::{Fault, FaultKind, Lasting, SimDisk};

use crate::run::{options, store_path};

const EAGER: FillingPolicy = FillingPolicy { after: 1, first: 2000, most: 4000 };

/// A store with a session on a simulated disk, and the file of its segment.
struct Scene {
    disk: SimDisk,
    store: LocalStore,
    id: SessionId,
    segment: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let disk = SimDisk::new(Path::new("/sim"));
        let options = LocalOptions { filling: EAGER, ..options(&disk, 7) };
        let store = LocalStore::init(&store_path(), options).unwrap();
        let id = store.create(NewSession::titled("filled")).unwrap().id;
        let mut files = disk.files().into_iter();
        let segment = files.find(|path| path.ends_with("journal/00000001.jsonl")).unwrap();
        Self { disk, store, id, segment }
    }

    fn writer(&self) -> LocalWriter {
        self.store.writer(self.id, Duration::ZERO).unwrap()
    }

    /// A writer that was killed after three events.
    fn killed() -> Self {
        let scene = Self::new();
        let writer = scene.writer();
        for n in 0..3 {
            append(&writer, n).unwrap();
        }
        std::mem::forget(writer);
        scene.disk.kill();
        assert!(scene.filled() > 0);
        scene
    }

    fn bytes(&self) -> Vec<u8> {
        self.disk.bytes(&self.segment).unwrap()
    }

    /// How many bytes of filling there are.
    fn filled(&self) -> usize {
        let bytes = self.bytes();
        bytes.len() - lines_end(&bytes)
    }

    fn found(&self) -> (usize, Vec<ReadFinding>) {
        let page = self.store.read(self.id).unwrap().page(EventRange::ALL).unwrap();
        let own = page.events.iter().filter(|event| event.kind.as_str() == "x.n");
        (own.count(), page.notes)
    }
}

fn lines_end(bytes: &[u8]) -> usize {
    bytes.trim_ascii_end().len() + 1
}

fn append(writer: &LocalWriter, n: u32) -> Result<(), AppendError> {
    let event = NewEvent::parse(&format!(r#"{{"kind":"x.n","data":{{"n":{n}}}}}"#)).unwrap();
    writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?.wait().map(|_| ())
}

#[test]
fn a_busy_writer_fills_and_a_close_cuts_it_off() {
    let scene = Scene::new();
    let writer = scene.writer();
    append(&writer, 0).unwrap();
    assert_eq!(scene.filled(), 0, "not at the first commit");
    append(&writer, 1).unwrap();
    let (length, filled) = (scene.bytes().len(), scene.filled());
    assert!(filled > 1000, "{filled}");
    append(&writer, 2).unwrap();
    assert_eq!(scene.bytes().len(), length, "the next lines overwrite it");
    assert!(scene.filled() < filled);
    assert_eq!(scene.found(), (3, vec![]));
    let bytes = scene.store.read(scene.id).unwrap().bytes().unwrap();
    assert!((bytes as usize) < length, "filling takes no room");
    writer.close().unwrap();
    assert_eq!(scene.filled(), 0);
    assert_eq!(scene.found(), (3, vec![]));
    // Dropped without a close it is cut off as well.
    let writer = scene.writer();
    append(&writer, 3).unwrap();
    append(&writer, 4).unwrap();
    assert!(scene.filled() > 0);
    drop(writer);
    assert_eq!(scene.filled(), 0);
    assert_eq!(scene.found(), (5, vec![]));
}

#[test]
fn a_segment_that_is_left_has_no_filling() {
    let scene = Scene::new();
    let mut config = scene.store.config().clone();
    config.journal.segment_bytes = 3000;
    let store = scene.store.with_config(config);
    let writer = store.writer(scene.id, Duration::ZERO).unwrap();
    let second = scene.segment.with_file_name("00000002.jsonl");
    let mut filled = 0;
    while scene.disk.bytes(&second).is_none() {
        append(&writer, 0).unwrap();
        let bytes = scene.disk.bytes(&scene.segment).unwrap();
        filled = filled.max(bytes.len() - lines_end(&bytes));
    }
    let bytes = scene.disk.bytes(&scene.segment).unwrap();
    assert!(filled > 0);
    assert_eq!(bytes.len(), lines_end(&bytes));
}

#[test]
fn two_writers_within_the_filling_are_noticed() {
    // Another one's line stands where ours would go; or it took the place of our last.
    let changes: [fn(&mut Vec<u8>, usize); 4] = [
        |bytes, end| bytes[end] = b'{',
        |bytes, end| bytes[end - 9] ^= 1,
        |bytes, end| bytes.truncate(end),
        |bytes, _| bytes.extend_from_slice(b"appended\n"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let scene = Scene::new();
        let writer = scene.writer();
        for n in 0..3 {
            append(&writer, n).unwrap();
        }
        let mut bytes = scene.bytes();
        let end = lines_end(&bytes);
        change(&mut bytes, end);
        scene.disk.set_bytes(&scene.segment, bytes.clone());
        let refused = append(&writer, 3);
        assert!(matches!(refused, Err(AppendError::Stopped { .. })), "{number}: {refused:?}");
        drop(writer);
        assert_eq!(scene.bytes(), bytes, "{number}: what is there is left as it is");
    }
    // Noticed at the close, it is left as it is too.
    let scene = Scene::new();
    let writer = scene.writer();
    for n in 0..3 {
        append(&writer, n).unwrap();
    }
    let mut bytes = scene.bytes();
    bytes.extend_from_slice(b"appended\n");
    scene.disk.set_bytes(&scene.segment, bytes.clone());
    drop(writer);
    assert!(scene.bytes().ends_with(b"appended\n"));
}

#[test]
fn on_a_full_disk_the_file_grows_with_its_lines() {
    // Whatever operation of the second commit finds the disk full, at once or after a part was
    // written: filling is done without.
    let (mut fallen_back, mut stopped) = (0, 0);
    let fault = |at, kind| Fault { at, kind, lasting: Lasting::Once };
    let at_once = |at| vec![fault(at, FaultKind::Full)];
    let in_part = |at| vec![fault(at, FaultKind::Short), fault(at + 1, FaultKind::Full)];
    for faults in (0..12).map(at_once).chain((0..12).map(in_part)) {
        let scene = Scene::new();
        let writer = scene.writer();
        append(&writer, 0).unwrap();
        scene.disk.set_faults(faults, 1);
        if append(&writer, 1).is_err() {
            stopped += 1;
            continue;
        }
        fallen_back += u32::from(scene.filled() == 0);
        append(&writer, 2).unwrap();
        assert_eq!(scene.found(), (3, vec![]));
        writer.close().unwrap();
        assert_eq!(scene.filled(), 0);
    }
    assert!(fallen_back >= 2 && stopped >= 2, "{fallen_back} without, {stopped} stopped");
}

#[test]
fn only_line_feeds_are_silent() {
    let scene = Scene::killed();
    assert_eq!(scene.found(), (3, vec![]));
    let findings = scene.store.doctor().examine(scene.id).unwrap().findings;
    assert!(findings.iter().all(|finding| finding.rule == "stale-lock"), "{findings:?}");
    let whole = scene.bytes();
    let end = lines_end(&whole);
    let put = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        scene.disk.set_bytes(&scene.segment, changed);
    };
    for (at, bytes) in [(end, &b"\0"[..]), (end + 700, b"\0\0\0\0"), (whole.len() - 3, b"{\"s")] {
        put(at, bytes);
        let (count, notes) = scene.found();
        assert_eq!(count, 3);
        assert!(matches!(notes.as_slice(), [ReadFinding::TornTail { .. }]), "{at}: {notes:?}");
    }
    // The writer cuts to the last line, and what it cut off does not come back.
    for seed in 0..40 {
        let scene = Scene::killed();
        std::mem::forget(scene.writer());
        scene.disk.power_cut(seed);
        assert_eq!(scene.bytes(), whole[..end], "the filling is back, seed {seed}");
    }
    for seed in 0..40 {
        let scene = Scene::killed();
        let mut zeroed = whole.clone();
        zeroed[end + 700..end + 1300].fill(0);
        scene.disk.set_bytes(&scene.segment, zeroed);
        std::mem::forget(scene.writer());
        scene.disk.power_cut(seed);
        let bytes = scene.bytes();
        assert!(!bytes.contains(&0), "the cut was not durable, seed {seed}");
        assert_eq!(bytes[..end], whole[..end]);
        assert_eq!(scene.found().0, 3);
    }
}

#[test]
fn what_a_killed_writer_filled_is_sealed_bundled_erased_and_read_without_it() {
    let closed = |scene: &Scene| scene.store.writer(scene.id, Duration::ZERO).unwrap().close();
    // A bundle is the same before and after the cut.
    let scene = Scene::killed();
    let bundle = || {
        let mut bytes = Vec::new();
        scene.store.exporter().export(scene.id, &mut bytes).unwrap();
        bytes
    };
    let before = bundle();
    assert!(BundleReader::open(before.as_slice()).unwrap().next().unwrap().is_some());
    scene.store.seal(scene.id, Duration::ZERO).unwrap();
    assert_eq!(bundle(), before);

    // A sealed segment holds the lines alone.
    let scene = Scene::killed();
    let lines = lines_end(&scene.bytes()) as u64;
    let sealed = scene.store.seal_whole(scene.id, Duration::ZERO).unwrap();
    assert_eq!((sealed.segments, sealed.plain_bytes), (1, lines));
    assert_eq!(scene.found(), (3, vec![]));
    closed(&scene).unwrap();
    assert_eq!(scene.found(), (3, vec![]));

    // What is erased is in no byte, and the rest stays.
    let scene = Scene::killed();
    let plan = scene.store.eraser().plan(scene.id, &[Seq(4)]).unwrap();
    assert_eq!(scene.store.eraser().apply(&plan, None, Duration::ZERO).unwrap().payloads, 1);
    let text = String::from_utf8(scene.bytes()).unwrap();
    assert!(!text.contains(r#"{"n":1}"#) && text.contains(r#"{"n":2}"#), "{text}");
    assert_eq!(scene.found().1, []);

    // Sought from either end, and page by page.
    let scene = Scene::killed();
    let reader = scene.store.read(scene.id).unwrap();
    let last = reader.page(EventRange::ALL.backward().limit(2)).unwrap();
    assert_eq!(last.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [5, 4]);
    assert_eq!(reader.acknowledged().unwrap().0, 5);
}
