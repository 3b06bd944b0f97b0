//! Erasing payloads and the files of checkpoints, and power cuts at every storage operation of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_journal::{Access, BundleReader, LockMode, PackWriter, Packs, Storage};
use abide_local::{
    EraseError, EventPart, ImportError, ImportOutcome, ImportedBundle, LocalOptions, LocalStore,
    RepairRequest, TranscriptPolicy,
};
use abide_model::{
    AnomalyPolicy, Durability, NewEvent, NewObject, NewSession, ObjectHash, ReadFinding, Retention,
    Seq, SessionId, SessionWriter, Store,
};
use abide_testkit::{Fault, FaultKind, FaultRun, Lasting, SimDisk};
use abide_workspace::{EntryKind, Snapshot, Tree, TreeEntry};

use crate::meanwhile::{Meanwhile, What};
use crate::power::cut_everywhere;
use crate::run::{go_on, healthy, open_store, options, read, small, store_path};

const SECRET: &str = "hunter2-5d41402abc4b2a76";
const WAIT: Duration = Duration::ZERO;

fn large() -> String {
    format!("{SECRET}{}", "x".repeat(900))
}

/// A session whose secret stands in a sealed segment, in the last one, and in an object.
fn recorded(disk: &SimDisk) -> (LocalStore, SessionId) {
    let store = small(LocalStore::init(&store_path(), options(disk, 3)).unwrap());
    let id = store.create(NewSession::titled("sim")).unwrap().id;
    let writer = store.writer(id, WAIT).unwrap();
    let texts = [SECRET.to_owned(), large()];
    for n in 0..24 {
        let text = if n % 8 == 3 { texts[n / 8 % 2].clone() } else { format!("{n} ").repeat(60) };
        let json = format!(r#"{{"kind":"x.sim","data":{{"text":"{text}"}}}}"#);
        let event = NewEvent::parse(&json).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
    }
    let json = format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#);
    let last = vec![NewEvent::parse(&json).unwrap()];
    writer.append(last, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    store.seal(id, WAIT).unwrap();
    store.update_transcript(id).unwrap();
    (store, id)
}

/// The files that have the secret, or the object it was in; and objects that hold it, however they
/// are packed.
fn holding(disk: &SimDisk) -> Vec<String> {
    let object = ObjectHash::of(large().as_bytes()).0;
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    let files = disk.files().into_iter().filter(|path| {
        let Some(mut bytes) = disk.bytes(path) else { return false };
        if path.extension().is_some_and(|end| end == "zst" || end == "tmp")
            && let Ok(plain) = zstd::stream::decode_all(bytes.as_slice())
        {
            bytes = plain;
        }
        let pack = path.extension().is_some_and(|end| end == "pack");
        has(&bytes, SECRET.as_bytes()) || (pack && has(&bytes, &object))
    });
    let mut holding: Vec<String> = files.map(|path| path.display().to_string()).collect();
    let packs = packs(disk);
    for object in packs.objects().unwrap() {
        let bytes = packs.read(object).unwrap().unwrap_or_default();
        if has(&bytes, SECRET.as_bytes()) {
            holding.push(format!("object {object}"));
        }
    }
    holding
}

fn packs(disk: &SimDisk) -> Arc<Packs> {
    Arc::new(Packs::new(Arc::new(disk.clone()), store_path().join("objects")))
}

fn append(store: &LocalStore, id: SessionId, json: &str) -> Seq {
    let writer = store.writer(id, WAIT).unwrap();
    let event = vec![NewEvent::parse(json).unwrap()];
    let done =
        writer.append(event, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    done.last().unwrap().seq
}

/// Puts a file with a few bytes of its own in the midst of noise; as its difference from another one
/// where there is one.
fn put_file(disk: &SimDisk, own: &str, like: Option<ObjectHash>) -> ObjectHash {
    let mut bytes = vec![0; 4000];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes[2000..2000 + own.len()].copy_from_slice(own.as_bytes());
    let hash = ObjectHash::of(&bytes);
    let writer = PackWriter::open(packs(disk)).unwrap();
    if writer.has(&[hash]).unwrap() != [true] {
        writer.put_like(&[NewObject { hash, bytes, base: like }]).unwrap();
        writer.sync().unwrap();
    }
    hash
}

/// Puts a snapshot of these files.
fn put_snapshot(disk: &SimDisk, files: &[(&str, ObjectHash)]) -> ObjectHash {
    let entry = |(name, hash): &(&str, ObjectHash)| TreeEntry {
        name: name.as_bytes().to_vec(),
        kind: EntryKind::File,
        mode: 0o644,
        size: 4000,
        hash: *hash,
    };
    let writer = PackWriter::open(packs(disk)).unwrap();
    let tree = Tree { entries: files.iter().map(entry).collect() };
    let snapshot = Snapshot {
        version: 1,
        tree: writer.put(&tree.write()).unwrap(),
        files: files.len() as u64,
        directories: 0,
        bytes: 0,
        omitted: Vec::new(),
        omissions: 0,
    };
    let hash = writer.put(&snapshot.write()).unwrap();
    writer.sync().unwrap();
    hash
}

fn checkpoint(store: &LocalStore, id: SessionId, snapshot: ObjectHash) -> Seq {
    let data = format!(r#"{{"trigger":"hand","snapshot":"{snapshot}"}}"#);
    append(store, id, &format!(r#"{{"kind":"checkpoint.created","data":{data}}}"#))
}

/// A session with the secret in a file of its first checkpoint, and a rewind to that from a second
/// one, whose file is stored as the difference from the secret's.
struct Rewound {
    disk: SimDisk,
    store: LocalStore,
    id: SessionId,
    /// The two checkpoints and the rewind.
    seqs: [Seq; 3],
    /// The files of the second checkpoint.
    kept: Vec<(ObjectHash, Vec<u8>)>,
}

impl Rewound {
    fn new() -> Self {
        let disk = SimDisk::new(Path::new("/sim"));
        let store = small(LocalStore::init(&store_path(), options(&disk, 3)).unwrap());
        let id = store.create(NewSession::titled("sim")).unwrap().id;
        let secret = put_file(&disk, SECRET, None);
        let edited = put_file(&disk, "edited", Some(secret));
        // So much beside it that a collection would leave it all as it is.
        let filler: Vec<ObjectHash> =
            (0..30).map(|n| put_file(&disk, &format!("filler {n}"), None)).collect();
        let first = put_snapshot(&disk, &[("a", filler[0]), ("env", secret)]);
        let names: Vec<String> = (10..40).map(|n| format!("f{n}")).collect();
        let mut files: Vec<(&str, ObjectHash)> =
            names.iter().map(String::as_str).zip(filler.iter().copied()).collect();
        files.insert(0, ("env", edited));
        let second = put_snapshot(&disk, &files);
        let one = checkpoint(&store, id, first);
        let two = checkpoint(&store, id, second);
        let rewind = format!(
            r#"{{"kind":"session.rewound","data":{{"to":{one},"files":true,"snapshot":"{first}","safety":"{second}"}}}}"#
        );
        let rewind = append(&store, id, &rewind);
        let restored = format!(r#"{{"kind":"files.restored","data":{{"rewind":{rewind}}}}}"#);
        append(&store, id, &restored);
        let read = |hash: ObjectHash| (hash, packs(&disk).read(hash).unwrap().unwrap());
        let kept = files.iter().map(|(_, hash)| read(*hash)).collect();
        Self { disk, store, id, seqs: [one, two, rewind], kept }
    }

    /// What the second checkpoint holds can be read.
    fn check_kept(disk: &SimDisk, kept: &[(ObjectHash, Vec<u8>)]) -> Result<(), String> {
        let packs = packs(disk);
        for (hash, bytes) in kept {
            if packs.read(*hash).unwrap().as_ref() != Some(bytes) {
                return Err(format!("object {hash} is gone"));
            }
        }
        Ok(())
    }
}

#[test]
fn the_files_of_an_erased_checkpoint_leave_the_packs() {
    let Rewound { disk, store, id, seqs: [one, _, rewind], kept } = Rewound::new();
    assert_eq!(holding(&disk).len(), 2, "the pack and the object");
    let plan = store.eraser().plan(id, &[one]).unwrap();
    assert!(plan.lines[0].snapshot.is_some());
    assert_eq!(plan.rewinds, [rewind], "it names the same snapshot, and lets it go");
    let erased = store.eraser().apply(&plan, None, WAIT).unwrap();
    // The snapshot, its tree and the file; the other file is the second checkpoint's too.
    assert_eq!((erased.payloads, erased.objects, erased.shared_files), (1, 3, 1));
    assert_eq!((erased.shared.len(), erased.notes.len()), (0, 0), "{erased:?}");
    assert_eq!(holding(&disk), [""; 0]);
    Rewound::check_kept(&disk, &kept).unwrap();
    assert_eq!(packs(&disk).verify().unwrap(), []);
    assert_eq!(store.doctor().examine(id).unwrap().findings, []);
    // The rewind is still one, and neither a collection nor another erasure minds.
    let reader = store.read(id).unwrap();
    let page = reader.page(abide_model::EventRange::ALL).unwrap();
    assert!(page.events.iter().any(|event| event.seq == rewind && event.data.is_some()));
    let collected = store.collector().collect(Duration::ZERO).unwrap();
    assert_eq!(collected.objects_removed, 0);
    let again = store.eraser().plan(id, &[one]).unwrap();
    assert_eq!(again.rewinds, []);
    assert_eq!(store.eraser().apply(&again, None, WAIT).unwrap().payloads, 0);
}

#[test]
fn a_power_cut_while_files_are_erased_loses_no_other_and_is_made_up_for() {
    let Rewound { disk, store, id, seqs: [one, ..], kept } = Rewound::new();
    let plan = store.eraser().plan(id, &[one]).unwrap();
    disk.keep_history();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    let moments = disk.take_history();
    let cuts = cut_everywhere(&moments, FaultRun::from_env().count(4, 60), &|disk, _, seed| {
        let store = open_store(disk, seed + 50).map_err(|error| format!("{error:?}"))?;
        Rewound::check_kept(disk, &kept)?;
        healthy(&store, id)?;
        store.eraser().finish(WAIT).map_err(|error| format!("{error:?}"))?;
        let plan = store.eraser().plan(id, &[one]).map_err(|error| format!("{error:?}"))?;
        if !plan.lines[0].erased {
            store.eraser().apply(&plan, None, WAIT).map_err(|error| format!("{error:?}"))?;
        }
        let holding = holding(disk);
        if !holding.is_empty() {
            return Err(format!("still in {holding:?}"));
        }
        Rewound::check_kept(disk, &kept)?;
        healthy(&store, id)
    });
    FaultRun::from_env().report("power cuts while files are erased", cuts, 500);
}

#[test]
fn a_tree_that_is_lost_stops_an_erasure_until_it_is_named_as_lost() {
    let Rewound { disk, store, id, seqs: [one, two, _], .. } = Rewound::new();
    let lost = put_file(&disk, "some files of the third one", None);
    let writer = PackWriter::open(packs(&disk)).unwrap();
    let entry = |name: &str, kind, hash| TreeEntry {
        name: name.as_bytes().to_vec(),
        kind,
        mode: 0o644,
        size: 1,
        hash,
    };
    // It is a directory of which nothing is known.
    let gone = ObjectHash::of(b"a directory");
    let entries = vec![entry("dir", EntryKind::Directory, gone), entry("f", EntryKind::File, lost)];
    let snapshot = Snapshot {
        version: 1,
        tree: writer.put(&Tree { entries }.write()).unwrap(),
        files: 1,
        directories: 1,
        bytes: 0,
        omitted: Vec::new(),
        omissions: 0,
    };
    let snapshot = writer.put(&snapshot.write()).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let three = checkpoint(&store, id, snapshot);
    let plan = store.eraser().plan(id, &[one]).unwrap();
    let refused = store.eraser().apply(&plan, None, WAIT);
    let Err(EraseError::Objects(error)) = refused else { panic!("{refused:?}") };
    let said = format!("event @{three} of session");
    assert!(error.to_string().contains(&said), "{error}");
    // A repair names it; then the erasure goes through, and keeps all that can be reached.
    let doctor = store.doctor();
    let plan = doctor.plan(&doctor.examine(id).unwrap(), RepairRequest::default()).unwrap();
    doctor.repair(&plan, RepairRequest::default(), WAIT).unwrap();
    store.eraser().finish(WAIT).unwrap().unwrap();
    assert_eq!(holding(&disk), [""; 0]);
    for object in
        [snapshot, lost, store.eraser().plan(id, &[two]).unwrap().lines[0].snapshot.unwrap()]
    {
        assert!(packs(&disk).read(object).unwrap().is_some(), "{object}");
    }
}

#[test]
fn what_another_checkpoint_holds_stays_and_that_is_said() {
    let Rewound { disk, store, id, seqs: [one, ..], .. } = Rewound::new();
    let other = store.create(NewSession::default()).unwrap().id;
    let first = store.eraser().plan(id, &[one]).unwrap().lines[0].snapshot.unwrap();
    let named = checkpoint(&store, other, first);
    let plan = store.eraser().plan(id, &[one]).unwrap();
    let erased = store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!((erased.objects, erased.shared.as_slice()), (0, &[first][..]));
    assert!(erased.named_by.contains(&(other, named)), "{erased:?}");
    assert!(!holding(&disk).is_empty());
    let plan = store.eraser().plan(other, &[named]).unwrap();
    assert_eq!(store.eraser().apply(&plan, None, WAIT).unwrap().objects, 3);
    assert_eq!(holding(&disk), [""; 0]);
}

#[test]
fn a_rewind_keeps_a_thinned_checkpoint_and_lets_its_files_go_when_it_is_named() {
    let Rewound { disk, store, id, seqs: [one, _, rewind], .. } = Rewound::new();
    append(&store, id, r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1]}}"#);
    store.eraser().erase_unnamed(WAIT).unwrap();
    assert!(!holding(&disk).is_empty(), "the rewind can be undone");
    let plan = store.eraser().plan(id, &[rewind]).unwrap();
    assert_eq!((plan.lines.len(), plan.rewinds.as_slice()), (0, &[rewind][..]));
    store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(holding(&disk), [""; 0]);
    // A rewind without files says how the session is to be read, and nothing else.
    let talk = append(&store, id, r#"{"kind":"session.rewound","data":{"to":2}}"#);
    let refused = store.eraser().plan(id, &[talk]);
    assert!(matches!(refused, Err(EraseError::Structural { .. })), "{refused:?}");
    assert!(store.eraser().plan(id, &[one]).is_ok());
}

#[test]
fn a_checkpoint_after_an_erasure_is_not_one_that_retention_let_go() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = small(LocalStore::init(&store_path(), options(&disk, 3)).unwrap());
    let id = store.create(NewSession::titled("sim")).unwrap().id;
    let snapshot = |n: u64| {
        let file = put_file(&disk, &format!("file {n}"), None);
        [file, put_snapshot(&disk, &[("a", file)])]
    };
    let made: Vec<Seq> = (1..=4).map(|n| checkpoint(&store, id, snapshot(n)[1])).collect();
    append(&store, id, r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[2,3]}}"#);
    let plan = store.eraser().plan(id, &made).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    // Some have their numbers from the fold, of others the writer took the next one.
    let mut files = Vec::new();
    for n in 5..9 {
        let [file, snapshot] = snapshot(n);
        let last = store.writer(id, WAIT).unwrap().state().unwrap().core.checkpoints.last;
        let number = if n % 2 == 0 { format!(r#","number":{}"#, last + 1) } else { String::new() };
        let data = format!(r#"{{"trigger":"hand","snapshot":"{snapshot}"{number}}}"#);
        append(&store, id, &format!(r#"{{"kind":"checkpoint.created","data":{data}}}"#));
        files.push(file);
    }
    let core = store.writer(id, WAIT).unwrap().state().unwrap().core;
    assert_eq!((core.checkpoints.newest, core.health.anomalies), (Some(8), 0));
    store.eraser().erase_unnamed(WAIT).unwrap();
    store.collector().collect(Duration::ZERO).unwrap();
    let has = || -> Vec<bool> {
        files.iter().map(|file| packs(&disk).read(*file).unwrap().is_some()).collect()
    };
    assert_eq!(has(), [true; 4]);
    // One that is let go by its number is that one.
    append(&store, id, r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[5]}}"#);
    store.eraser().erase_unnamed(WAIT).unwrap();
    assert_eq!(has(), [false, true, true, true]);
    assert_eq!(store.doctor().examine(id).unwrap().findings, []);
}

#[test]
fn a_text_is_found_in_files_and_in_what_nothing_names() {
    let Rewound { disk, store, id, seqs: [one, _, rewind], .. } = Rewound::new();
    let parts = store.eraser().parts_of(id).unwrap();
    let found = store.eraser().find_files(&parts, SECRET).unwrap();
    let held: Vec<_> = found.held.iter().map(|held| (held.seq, held.checkpoint)).collect();
    assert_eq!(held, [(one, Some(1)), (rewind, None)]);
    assert_eq!(found.held[0].paths, ["env"]);
    assert_eq!((found.unnamed, found.notes.as_slice()), (0, &[][..]));
    assert_eq!(store.eraser().find_payloads(id, SECRET).unwrap().payloads, []);
    // As a session leaves it that retention removes while somebody puts objects.
    let all = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    let writer = PackWriter::open(packs(&disk)).unwrap();
    let cleanup = store.cleaner().plan(&all).unwrap();
    assert_eq!(store.cleaner().apply(&cleanup, &all).unwrap().sessions.len(), 1);
    drop(writer);
    assert!(!holding(&disk).is_empty());
    let found = store.eraser().find_files(&[], SECRET).unwrap();
    assert_eq!((found.held.len(), found.unnamed), (0, 1));
    assert!(store.eraser().erase_unnamed(WAIT).unwrap().objects > 0);
    assert_eq!(holding(&disk), [""; 0]);
}

#[test]
fn nothing_is_erased_while_somebody_puts_objects() {
    let Rewound { disk, store, id, seqs: [one, ..], .. } = Rewound::new();
    let plan = store.eraser().plan(id, &[one]).unwrap();
    let writer = PackWriter::open(packs(&disk)).unwrap();
    let refused = store.eraser().apply(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::NotBegun(_))), "{refused:?}");
    assert!(!store.eraser().plan(id, &[one]).unwrap().lines[0].erased);
    drop(writer);
    store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(holding(&disk), [""; 0]);
}

#[test]
fn objects_that_cannot_be_taken_out_are_told_and_the_erasure_is_not_over() {
    let Rewound { disk, store, id, seqs: [one, ..], .. } = Rewound::new();
    let plan = store.eraser().plan(id, &[one]).unwrap();
    // An object that is needed stands damaged beside the secret. It is a file, so that what the
    // snapshots lead to can still be told.
    let pack = disk.files().into_iter().find(|path| path.extension().is_some_and(|e| e == "pack"));
    let pack = pack.unwrap();
    let whole = disk.bytes(&pack).unwrap();
    let at = whole.windows(8).position(|part| part == b"filler 7").unwrap();
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    disk.set_bytes(&pack, damaged);
    let refused = open_store(&disk, 77).unwrap().eraser().apply(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Objects(_))), "{refused:?}");
    assert!(disk.files().contains(&store_path().join("erasing")));
    disk.set_bytes(&pack, whole);
    let store = open_store(&disk, 78).unwrap();
    assert_eq!(store.eraser().finish(WAIT).unwrap().unwrap().objects, 3);
    assert_eq!(holding(&disk), [""; 0]);
    assert!(!disk.files().contains(&store_path().join("erasing")));
}

fn pack_files(disk: &SimDisk) -> Vec<PathBuf> {
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|end| end == "pack");
    disk.files().into_iter().filter(is_pack).collect()
}

#[test]
fn without_room_for_new_packs_the_old_ones_stay() {
    let Rewound { disk, store, id, seqs: [one, ..], kept } = Rewound::new();
    let plan = store.eraser().plan(id, &[one]).unwrap();
    let before = pack_files(&disk);
    disk.set_free(1000);
    let refused = store.eraser().apply(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Objects(_))), "{refused:?}");
    assert!(format!("{refused:?}").contains("1000 are free"), "{refused:?}");
    assert_eq!(pack_files(&disk), before);
    Rewound::check_kept(&disk, &kept).unwrap();
    disk.set_free(1 << 20);
    assert_eq!(store.eraser().finish(WAIT).unwrap().unwrap().objects, 3);
    assert_eq!(holding(&disk), [""; 0]);
    Rewound::check_kept(&disk, &kept).unwrap();
}

#[test]
fn an_erasure_that_fails_leaves_no_new_packs_beside_the_old_ones() {
    let Rewound { disk, store, id, seqs: [one, ..], kept } = Rewound::new();
    let plan = store.eraser().plan(id, &[one]).unwrap();
    let before = pack_files(&disk).len();
    let moment = disk.take_history().remove(0);
    let (mut failed, mut over) = (0, false);
    for at in 0.. {
        let disk = SimDisk::at(&moment);
        let store = open_store(&disk, 7).unwrap();
        disk.set_faults(vec![Fault { at, kind: FaultKind::Full, lasting: Lasting::Once }], at);
        let erased = store.eraser().apply(&plan, None, WAIT);
        over = disk.operations() <= at;
        if over {
            break;
        }
        if let Err(error) = erased {
            failed += 1;
            // Where the old one cannot be removed, both are there.
            let beside = usize::from(format!("{error:?}").contains("\"remove\""));
            let packs = pack_files(&disk).len();
            assert!(packs <= before + beside, "{at}: {packs} packs after {error:?}");
        }
        Rewound::check_kept(&disk, &kept).unwrap();
    }
    assert!(over && failed > 20, "{failed}");
}

#[test]
fn copies_of_a_repair_that_was_cut_off_before_its_record_go_too() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let quarantine = store_path().join("quarantine");
    let dir = quarantine.join("2025-11-15T01-20-00-0badcafe");
    for dir in [&quarantine, &dir] {
        disk.make_dir(dir).unwrap();
    }
    for name in ["0", "1", "people's notes"] {
        disk.open(&dir.join(name), Access::Create).unwrap();
        disk.set_bytes(&dir.join(name), SECRET.as_bytes().to_vec());
    }
    let seqs = store.eraser().find_payloads(id, SECRET).unwrap().payloads;
    let plan = store.eraser().plan(id, &seqs).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(holding(&disk), [dir.join("people's notes").display().to_string()]);
}

#[test]
fn what_a_repair_kept_stays_where_its_record_cannot_be_read() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let quarantine = store_path().join("quarantine");
    let dir = quarantine.join("2025-11-15T01-20-00-0badcafe");
    for dir in [&quarantine, &dir] {
        disk.make_dir(dir).unwrap();
    }
    for name in ["0", "repair.json"] {
        disk.open(&dir.join(name), Access::Create).unwrap();
        disk.set_bytes(&dir.join(name), b"{ \"id\": \"2025-11-15T0".to_vec());
    }
    let plan = store.eraser().plan(id, &[Seq(6)]).unwrap();
    let erased = store.eraser().apply(&plan, None, WAIT).unwrap();
    assert!(disk.files().contains(&dir.join("0")));
    let [note] = &erased.notes[..] else { panic!("{erased:?}") };
    assert!(note.contains("0badcafe cannot be read, so its copies are not erased"), "{note}");
    // The removal of a session says so too.
    let all = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    let cleanup = store.cleaner().plan(&all).unwrap();
    let notes = store.cleaner().apply(&cleanup, &all).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("0badcafe cannot be read")), "{notes:?}");
    assert!(disk.files().contains(&dir.join("0")));
}

#[test]
fn a_repair_that_finishes_an_erasure_keeps_what_it_replaces() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let put = |name: &str, text: &str| {
        disk.open(&store_path().join(name), Access::Create).unwrap();
        disk.set_bytes(&store_path().join(name), text.as_bytes().to_vec());
    };
    put("erasing", &format!(r#"{{"session":"{id}","events":[6],"objects":[],"reason":null}}"#));
    put("somebody's.tmp", "all there is of it");
    let doctor = store.doctor();
    let plan = doctor.plan_store(&doctor.examine_store().unwrap()).unwrap();
    let shown: Vec<String> = plan.actions.iter().map(ToString::to_string).collect();
    assert!(shown.iter().any(|action| action.contains("finish an erasure")), "{shown:?}");
    doctor.repair(&plan, RepairRequest::default(), WAIT).unwrap();
    assert!(!store.eraser().is_erasing());
    assert!(store.eraser().plan(id, &[Seq(6)]).unwrap().lines[0].erased);
    let files = disk.files();
    assert!(!files.contains(&store_path().join("somebody's.tmp")));
    let kept = files.iter().filter(|path| path.starts_with(store_path().join("quarantine")));
    let kept: Vec<_> = kept.filter_map(|path| disk.bytes(path)).collect();
    assert!(kept.contains(&b"all there is of it".to_vec()), "{files:?}");
}

/// Two repairs that have kept a file with the secret: one of the store's own files, and one of a
/// session. Gives the copies.
fn kept_copies(disk: &SimDisk, session: SessionId) -> [PathBuf; 2] {
    let quarantine = store_path().join("quarantine");
    disk.make_dir(&quarantine).unwrap();
    let sessions = [("store", "null".to_owned()), ("session", format!("\"{session}\""))];
    sessions.map(|(id, session)| {
        let dir = quarantine.join(id);
        disk.make_dir(&dir).unwrap();
        let record = format!(
            r#"{{"id":"{id}","session":{session},"files":[{{"path":"objects/7","was":true}}]}}"#
        );
        for (name, text) in [("repair.json", record.as_str()), ("0", SECRET)] {
            disk.open(&dir.join(name), Access::Create).unwrap();
            disk.set_bytes(&dir.join(name), text.as_bytes().to_vec());
        }
        dir.join("0")
    })
}

#[test]
fn what_repairs_of_the_store_kept_goes_with_what_nothing_names() {
    let Rewound { disk, store, id, .. } = Rewound::new();
    let [of_store, of_session] = kept_copies(&disk, id);
    let found = store.eraser().find_files(&[], SECRET).unwrap();
    assert!(found.notes[0].contains("copies of 2 repairs"), "{found:?}");
    store.eraser().erase_unnamed(WAIT).unwrap();
    let files = disk.files();
    assert!(!files.contains(&of_store) && files.contains(&of_session));
    // What an erasure of the session deletes is not worth a word.
    assert!(
        store.eraser().find_files(&[], SECRET).unwrap().notes[0].contains("copies of 1 repairs")
    );
    let parts = store.eraser().parts_of(id).unwrap();
    assert_eq!(store.eraser().find_files(&parts, SECRET).unwrap().notes, [""; 0]);
    // An erasure whose session is gone.
    let other = "019a8519-0200-7503-9294-f2065da4d5ae".parse().unwrap();
    let [of_store, of_other] = kept_copies(&disk, other);
    let entry = format!(r#"{{"session":"{other}","events":[6],"objects":[],"reason":null}}"#);
    disk.open(&store_path().join("erasing"), Access::Create).unwrap();
    disk.set_bytes(&store_path().join("erasing"), entry.into_bytes());
    store.eraser().finish(WAIT).unwrap().unwrap();
    let files = disk.files();
    assert!(!files.contains(&of_store) && !files.contains(&of_other));
}

#[test]
fn what_is_left_of_removed_sessions_and_of_imports_goes_too() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let other = "019a8519-0200-7503-9294-f2065da4d5ae";
    let (removed, imports) = (store_path().join("removed"), store_path().join("imports"));
    let session = removed.join("2025-11-15T01-20-00-edn9te");
    let dirs = [session.join("journal"), imports.join(other)];
    for dir in [&removed, &session, &imports].into_iter().chain(&dirs) {
        disk.make_dir(dir).unwrap();
    }
    for dir in &dirs {
        disk.open(&dir.join("00000001.jsonl"), Access::Create).unwrap();
        disk.set_bytes(&dir.join("00000001.jsonl"), SECRET.as_bytes().to_vec());
    }
    let seqs = store.eraser().find_payloads(id, SECRET).unwrap().payloads;
    let plan = store.eraser().plan(id, &seqs).unwrap();
    // An import that runs keeps what it has read, and that is said.
    let lock = disk.lock(&imports.join(format!("{other}.lock")), LockMode::Exclusive).unwrap();
    let erased = store.eraser().apply(&plan, None, WAIT).unwrap();
    assert!(
        erased.notes[0].contains(&format!("an import of session {other} is running")),
        "{erased:?}"
    );
    let staged = imports.join(other).join("00000001.jsonl").display().to_string();
    assert_eq!(holding(&disk), [staged]);
    drop(lock);
    let left = store.eraser().clear_leftovers().unwrap();
    assert_eq!((left.sessions, left.imports, left.notes.len()), (0, 1, 0));
    assert_eq!(holding(&disk), [""; 0]);
    assert!(disk.files().iter().all(|path| !path.starts_with(&imports)));
}

#[test]
fn the_past_of_a_fork_is_found_and_erased_where_it_is() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, parent) = recorded(&disk);
    let seqs = store.eraser().find_payloads(parent, SECRET).unwrap().payloads;
    let at = seqs[1];
    let fork = store.fork(parent, Some(at), NewSession::default()).unwrap().id;
    assert_eq!(store.eraser().find_payloads(fork, SECRET).unwrap().payloads, []);
    let parts = store.eraser().parts_of(fork).unwrap();
    let own = EventPart { session: fork, first: at.next(), last: Seq(u64::MAX) };
    assert_eq!(parts, [EventPart { session: parent, first: Seq(1), last: at }, own]);
    let shared: Vec<Seq> = seqs.iter().copied().filter(|seq| parts[0].contains(*seq)).collect();
    assert_eq!(shared, seqs[..2]);
    let plan = store.eraser().plan(parent, &shared).unwrap();
    assert_eq!(plan.forks, [fork]);
    store.eraser().apply(&plan, None, WAIT).unwrap();
    let read = read(&store, fork).unwrap();
    assert!(read.data.iter().all(|data| !data.contains(SECRET)), "{:?}", read.data);
    healthy(&store, fork).unwrap();
}

fn import(store: &LocalStore, bundle: &[u8]) -> Result<ImportedBundle, ImportError> {
    store.importer().import(BundleReader::open(bundle)?, WAIT)
}

/// The secret as an object, in a session that two stores have; each with its disk.
fn shared() -> [(SimDisk, LocalStore); 2] {
    let sides = [5, 6].map(|seed| {
        let disk = SimDisk::new(Path::new("/sim"));
        let store = small(LocalStore::init(&store_path(), options(&disk, seed)).unwrap());
        (disk, store)
    });
    let id = sides[0].1.create(NewSession::default()).unwrap().id;
    append(&sides[0].1, id, &format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, large()));
    import(&sides[1].1, &export(&sides[0].1)).unwrap();
    sides
}

fn only(store: &LocalStore) -> SessionId {
    store.list().unwrap()[0].id
}

fn export(store: &LocalStore) -> Vec<u8> {
    let mut bundle = Vec::new();
    store.exporter().export(only(store), &mut bundle).unwrap();
    bundle
}

/// Erases the secret in a store that has it once.
fn erase(store: &LocalStore) -> Seq {
    let id = only(store);
    let seqs = store.eraser().find_payloads(id, SECRET).unwrap().payloads;
    let plan = store.eraser().plan(id, &seqs).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    seqs[0]
}

#[test]
fn an_import_brings_nothing_back_whether_it_is_refused_or_not() {
    let [(disk, here), (_, there)] = shared();
    let id = only(&here);
    for n in 0..9 {
        append(&there, id, &format!(r#"{{"kind":"x.sim","data":{{"n":{n}}}}}"#));
    }
    let longer = export(&there);
    erase(&here);
    assert_eq!(holding(&disk), [""; 0]);
    // The erasure itself was recorded here, so that both have gone on.
    let refused = import(&here, &longer);
    assert!(matches!(refused, Err(ImportError::Diverged { .. })), "{refused:?}");
    assert_eq!(holding(&disk), [""; 0]);
    healthy(&here, id).unwrap();
    // One that is cut off.
    assert!(import(&here, &longer[..longer.len() - 9]).is_err());
    assert_eq!(holding(&disk), [""; 0]);
}

#[test]
fn an_older_bundle_brings_nothing_back_after_its_session_was_removed() {
    let [(disk, here), (_, there)] = shared();
    let id = only(&here);
    append(&here, id, r#"{"kind":"x.sim","data":{"n":1}}"#);
    let older = export(&here);
    let seq = erase(&here);
    assert!(here.eraser().has_erased(id).unwrap());
    here.remover().delete(id).unwrap();
    here.eraser().erase_unnamed(WAIT).unwrap();
    let other = there.create(NewSession::default()).unwrap().id;
    assert!(!here.eraser().has_erased(other).unwrap());
    let checked = here.importer().check(BundleReader::open(&*older).unwrap()).unwrap();
    assert_eq!(checked.kept_erased, [seq]);
    let done = import(&here, &older).unwrap();
    assert_eq!((done.outcome, done.kept_erased), (ImportOutcome::Made, vec![seq]));
    assert_eq!(holding(&disk), [""; 0]);
    healthy(&here, id).unwrap();
    let data = read(&here, id).unwrap().data;
    assert_eq!(data.iter().filter(|data| *data == "erased").count(), 1, "{data:?}");
    // Where the session is, nothing comes back, and nothing is forgotten.
    let forgetting = || BundleReader::open(&*older).unwrap().bringing_back_erased();
    let again = here.importer().import(forgetting(), WAIT).unwrap();
    assert_eq!((again.outcome, again.kept_erased), (ImportOutcome::Same, vec![seq]));
    here.remover().delete(id).unwrap();
    assert_eq!(import(&here, &older).unwrap().kept_erased, [seq]);
    here.remover().delete(id).unwrap();
    assert_eq!(here.importer().check(forgetting()).unwrap().brought_back, [seq]);
    let back = here.importer().import(forgetting(), WAIT).unwrap();
    assert_eq!((back.kept_erased, back.brought_back), (Vec::new(), vec![seq]));
    assert!(!holding(&disk).is_empty());
    healthy(&here, id).unwrap();
    here.remover().delete(id).unwrap();
    let ordinary = import(&here, &older).unwrap();
    assert_eq!((ordinary.kept_erased, ordinary.brought_back), (Vec::new(), Vec::new()));
}

#[test]
fn an_import_that_fails_forgets_nothing() {
    let mut failed = 0;
    for at in 0.. {
        let [(disk, here), _] = shared();
        let id = only(&here);
        let older = export(&here);
        erase(&here);
        here.remover().delete(id).unwrap();
        disk.set_faults(vec![Fault { at, kind: FaultKind::Io, lasting: Lasting::Once }], at);
        let bundle = BundleReader::open(&*older).unwrap().bringing_back_erased();
        let done = here.importer().import(bundle, WAIT);
        let is_over = disk.operations() <= at;
        disk.set_faults(Vec::new(), 0);
        if !here.list().unwrap().iter().any(|session| session.id == id) {
            assert!(done.is_err(), "{done:?}");
            assert!(here.eraser().has_erased(id).unwrap(), "forgotten at operation {at}");
            failed += 1;
        }
        if is_over {
            break;
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_forward_brings_nothing_back_that_was_erased_before_the_session_was_removed() {
    let disk = SimDisk::new(Path::new("/sim"));
    let here = small(LocalStore::init(&store_path(), options(&disk, 5)).unwrap());
    let id = here.create(NewSession::default()).unwrap().id;
    append(&here, id, r#"{"kind":"x.sim","data":{"n":1}}"#);
    let short = export(&here);
    append(&here, id, &format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, large()));
    let long = export(&here);
    let seq = erase(&here);
    here.remover().delete(id).unwrap();
    here.eraser().erase_unnamed(WAIT).unwrap();
    assert_eq!(import(&here, &short).unwrap().kept_erased, []);
    let done = import(&here, &long).unwrap();
    assert!(matches!(done.outcome, ImportOutcome::Forwarded { .. }), "{done:?}");
    assert_eq!((done.kept_erased, holding(&disk)), (vec![seq], Vec::new()));
    healthy(&here, id).unwrap();
    assert_eq!(import(&here, &long).unwrap().outcome, ImportOutcome::Same);
    // Another history of the session has another event with that number; both stay erased.
    here.remover().delete(id).unwrap();
    import(&here, &short).unwrap();
    append(&here, id, &format!(r#"{{"kind":"x.sim","data":{{"text":"other {}"}}}}"#, large()));
    let other = export(&here);
    let theirs = erase(&here);
    assert_eq!(theirs, seq);
    for bundle in [&long, &other] {
        here.remover().delete(id).unwrap();
        here.eraser().erase_unnamed(WAIT).unwrap();
        assert_eq!(import(&here, bundle).unwrap().kept_erased, [seq]);
        assert_eq!(holding(&disk), [""; 0]);
    }
}

#[test]
fn a_record_of_erasures_that_cannot_be_read_stops_an_import() {
    let [(disk, here), _] = shared();
    let id = only(&here);
    let older = export(&here);
    erase(&here);
    here.remover().delete(id).unwrap();
    let path = store_path().join("erased");
    let whole = disk.bytes(&path).unwrap();
    for bad in [&whole[..whole.len() - 3], b"nonsense\n"] {
        disk.set_bytes(&path, bad.to_vec());
        let refused = import(&here, &older).unwrap_err().to_string();
        assert!(refused.contains("it does not name an erased event"), "{refused}");
        let findings = here.doctor().examine_store().unwrap();
        assert!(findings.iter().any(|one| one.rule == "unreadable-erasure"), "{findings:?}");
    }
    // What is erased meanwhile is recorded beside it.
    let other = here.create(NewSession::default()).unwrap().id;
    append(&here, other, &format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#));
    erase(&here);
    let text = String::from_utf8(disk.bytes(&path).unwrap()).unwrap();
    assert!(text.starts_with("nonsense\n") && text.contains(&other.to_string()), "{text}");
    here.remover().delete(other).unwrap();
    disk.set_bytes(&path, whole);
    assert_eq!(import(&here, &older).unwrap().kept_erased.len(), 1);
}

#[test]
fn a_forward_leaves_erased_what_is_and_says_what_is_not() {
    let [(disk, here), (their_disk, there)] = shared();
    let id = only(&here);
    let before = export(&here);
    let seq = erase(&here);
    // What is erased there and whole here is told, and stays: an import erases nothing.
    let checked = there.importer().check(BundleReader::open(&*export(&here)).unwrap()).unwrap();
    assert_eq!(checked.unerased, [seq]);
    let forwarded = import(&there, &export(&here)).unwrap();
    assert!(matches!(forwarded.outcome, ImportOutcome::Forwarded { .. }), "{forwarded:?}");
    assert_eq!(forwarded.unerased, [seq]);
    assert!(!holding(&their_disk).is_empty());
    assert_eq!(import(&there, &export(&here)).unwrap().unerased, [seq]);
    // What is whole there and erased here stays erased, also where the session goes forward.
    assert_eq!(import(&here, &before).unwrap().unerased, []);
    append(&there, id, r#"{"kind":"x.sim","data":{"n":1}}"#);
    let forwarded = import(&here, &export(&there)).unwrap();
    assert!(matches!(forwarded.outcome, ImportOutcome::Forwarded { .. }), "{forwarded:?}");
    assert_eq!((forwarded.unerased.as_slice(), holding(&disk)), (&[][..], Vec::new()));
    // A new event that names the same object brings it along: it was not erased.
    append(&there, id, &format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, large()));
    import(&here, &export(&there)).unwrap();
    healthy(&here, id).unwrap();
    let data = read(&here, id).unwrap().data;
    assert!(data[0] == "erased" && data.last().unwrap().contains(SECRET), "{data:?}");
}

#[test]
fn files_of_a_rewind_that_are_erased_elsewhere_are_told_until_they_are_erased_here() {
    let Rewound { disk, store, id, seqs: [.., rewind], .. } = Rewound::new();
    append(&store, id, r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1]}}"#);
    let far = SimDisk::new(Path::new("/sim"));
    let there = small(LocalStore::init(&store_path(), options(&far, 6)).unwrap());
    import(&there, &export(&store)).unwrap();
    far.make_dir(&store_path().join("objects")).unwrap();
    for path in pack_files(&disk) {
        far.open(&path, Access::Create).unwrap();
        far.set_bytes(&path, disk.bytes(&path).unwrap());
    }
    let plan = store.eraser().plan(id, &[rewind]).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    let bundle = export(&store);
    for outcome in ["Forwarded", "Same"] {
        let done = import(&there, &bundle).unwrap();
        assert!(format!("{:?}", done.outcome).starts_with(outcome), "{done:?}");
        assert_eq!(done.unerased, [rewind], "{outcome}");
    }
    let check = || there.importer().check(BundleReader::open(&*bundle).unwrap()).unwrap().unerased;
    assert_eq!(check(), [rewind]);
    assert!(!holding(&far).is_empty());
    let plan = there.eraser().plan(id, &[rewind]).unwrap();
    there.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(holding(&far), [""; 0]);
    assert_eq!(check(), []);
    assert_eq!(import(&there, &bundle).unwrap().outcome, ImportOutcome::Same);
    // What something else names stays, and is not to be erased.
    let [filler, secret] = ["filler 0", SECRET].map(|own| put_file(&far, own, None));
    let first = put_snapshot(&far, &[("a", filler), ("env", secret)]);
    assert_eq!(check(), [rewind], "it is the same snapshot again");
    let other = there.create(NewSession::default()).unwrap().id;
    checkpoint(&there, other, first);
    assert_eq!(check(), []);
}

#[test]
fn a_secret_in_sealed_segments_objects_and_the_last_line_is_gone() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let before = holding(&disk);
    for end in [".jsonl.zst", ".jsonl", ".pack", "transcript.task"] {
        assert!(before.iter().any(|path| path.ends_with(end)), "{end}: {before:?}");
    }
    let data = read(&store, id).unwrap().data;
    let matches = store.eraser().find_payloads(id, SECRET).unwrap();
    assert_eq!(matches.payloads.len(), 4);
    let plan = store.eraser().plan(id, &matches.payloads).unwrap();
    assert_eq!(holding(&disk), before);
    let erased = store.eraser().apply(&plan, Some("a password"), WAIT).unwrap();
    assert_eq!((erased.payloads, erased.objects), (4, 1));
    assert_eq!(holding(&disk), [""; 0]);
    healthy(&store, id).unwrap();
    assert_eq!(store.doctor().examine(id).unwrap().findings, []);
    // Everything else is as it was, and the session goes on.
    let after = read(&store, id).unwrap().data;
    assert_eq!(after.len(), data.len());
    for (one, other) in data.iter().zip(&after) {
        assert_eq!(other, if one.contains(SECRET) { "erased" } else { one });
    }
    go_on(&store, id, &after).unwrap();
    let state = store.writer(id, WAIT).unwrap().state().unwrap();
    assert_eq!(state.core.health.erased, 4);
    // Again: there is nothing more to do, and it is not said twice.
    let events = read(&store, id).unwrap().events;
    let plan = store.eraser().plan(id, &matches.payloads).unwrap();
    assert!(plan.lines.iter().all(|line| line.erased));
    assert_eq!(store.eraser().apply(&plan, None, WAIT).unwrap().payloads, 0);
    assert_eq!(read(&store, id).unwrap().events, events);
}

#[test]
fn an_old_transcript_of_a_store_that_keeps_none_goes_with_the_secret() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let mut config = store.config().clone();
    config.transcript = TranscriptPolicy::Off;
    let store = store.with_config(config);
    let transcript = |path: &PathBuf| path.ends_with("transcript.task");
    assert!(disk.files().iter().any(transcript));
    let matches = store.eraser().find_payloads(id, SECRET).unwrap();
    let plan = store.eraser().plan(id, &matches.payloads).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(holding(&disk), [""; 0]);
    assert!(!disk.files().iter().any(transcript));
    // Where there is none, none is made.
    let other = store.create(NewSession::default()).unwrap().id;
    let seq = append(&store, other, &format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#));
    let plan = store.eraser().plan(other, &[seq]).unwrap();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    assert!(!disk.files().iter().any(transcript));
}

#[test]
fn who_reads_meanwhile_does_not_bring_it_back_into_the_transcript() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".abide");
    let store = LocalStore::init(&root, LocalOptions::default()).unwrap();
    let store = crate::with_transcripts(store);
    for there in [true, false] {
        let session = store.create(NewSession::default()).unwrap().id;
        let json = format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#);
        let seq = append(&store, session, &json);
        // Beside a writer, only what is known to be acknowledged is read: that is all but the last.
        append(&store, session, r#"{"kind":"x.sim","data":{}}"#);
        let journal = store.reader(session).unwrap().journal().dir().to_owned();
        let transcript = journal.with_file_name("transcript.task");
        store.update_transcript(session).unwrap();
        let has = || std::fs::read_to_string(&transcript).unwrap().contains(SECRET);
        assert!(has());
        if !there {
            std::fs::remove_file(&transcript).unwrap();
        }
        // A reader brings it up to date while a segment is written anew.
        let (place, text) = (root.clone(), transcript.clone());
        let reads = Meanwhile::on(move |path, what| {
            let rewrites = what == What::Open(Access::CreateNew)
                && path.to_string_lossy().ends_with(".jsonl.tmp");
            if rewrites {
                let store = LocalStore::open(&place, LocalOptions::default()).unwrap();
                let store = crate::with_transcripts(store);
                store.update_transcript(session).unwrap();
                let text = std::fs::read_to_string(&text).unwrap_or_default();
                assert!(!text.contains(SECRET), "while it is erased");
            }
            rewrites
        });
        let options = LocalOptions { storage: reads.clone(), ..LocalOptions::default() };
        let store = crate::with_transcripts(LocalStore::open(&root, options).unwrap());
        let plan = store.eraser().plan(session, &[seq]).unwrap();
        assert_eq!(store.eraser().apply(&plan, None, WAIT).unwrap().payloads, 1);
        assert!(reads.happened() && !has(), "{there}");
    }
}

#[test]
fn a_session_in_use_and_a_damaged_one_are_refused() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let plan = store.eraser().plan(id, &[Seq(6)]).unwrap();
    let before = read(&store, id).unwrap().data;
    let writer = store.writer(id, WAIT).unwrap();
    assert!(store.eraser().apply(&plan, None, WAIT).is_err());
    drop(writer);
    assert!(matches!(store.eraser().plan(id, &[Seq(2)]), Err(EraseError::Structural { .. })));
    assert!(matches!(store.eraser().plan(id, &[Seq(999)]), Err(EraseError::NoEvent { .. })));
    let journal =
        disk.files().into_iter().find(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let journal = journal.unwrap();
    let mut bytes = disk.bytes(&journal).unwrap();
    let at = bytes.len() - 300;
    bytes[at] ^= 1;
    disk.set_bytes(&journal, bytes.clone());
    let refused = store.eraser().apply(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Damaged { .. })), "{refused:?}");
    assert_eq!(disk.bytes(&journal).unwrap(), bytes);
    bytes[at] ^= 1;
    disk.set_bytes(&journal, bytes);
    assert_eq!(read(&store, id).unwrap().data, before);
}

#[test]
fn an_erasure_that_cannot_be_finished_stops_no_other() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let erasing = store_path().join("erasing");
    let segment = |id: SessionId| {
        let dir = store.reader(id).unwrap().journal().dir().to_owned();
        let files = disk.files().into_iter().filter(|path| path.starts_with(&dir));
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).max().unwrap()
    };
    let other = store.create(NewSession::default()).unwrap().id;
    let writer = store.writer(other, WAIT).unwrap();
    let said = format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#);
    let said = vec![NewEvent::parse(&said).unwrap()];
    writer.append(said, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    let plan = store.eraser().plan(id, &[Seq(6)]).unwrap();
    // Damage is found before anything is written down.
    let (path, bytes) = (segment(id), disk.bytes(&segment(id)).unwrap());
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    disk.set_bytes(&path, damaged.clone());
    let refused = store.eraser().apply(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Damaged { .. })), "{refused:?}");
    assert!(!disk.files().contains(&erasing));
    // One that was cut short, and whose journal was damaged since.
    let entry = format!(r#"{{"session":"{id}","events":[6],"objects":[],"reason":null}}"#);
    disk.set_bytes(&path, bytes.clone());
    disk.open(&erasing, abide_journal::Access::Create).unwrap();
    disk.set_bytes(&erasing, entry.clone().into_bytes());
    disk.set_bytes(&path, damaged);
    assert_eq!(store.eraser().finish(WAIT).unwrap(), None);
    let plan = store.eraser().plan(other, &[Seq(3)]).unwrap();
    let erased = store.eraser().apply(&plan, None, WAIT).unwrap();
    assert_eq!(erased.payloads, 1);
    assert!(erased.notes[0].contains(&id.to_string()), "{:?}", erased.notes);
    let left = String::from_utf8(disk.bytes(&erasing).unwrap()).unwrap();
    assert_eq!(left.trim_end(), entry);
    // Mended, it is finished.
    disk.set_bytes(&path, bytes);
    let finished = store.eraser().finish(WAIT).unwrap().unwrap();
    assert_eq!((finished.payloads, finished.notes.as_slice()), (1, &[][..]));
    assert!(!disk.files().contains(&erasing));
}

#[test]
fn a_power_cut_leaves_a_readable_journal_and_the_next_erasure_finishes() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let data = read(&store, id).unwrap().data;
    let older = export(&store);
    let seqs = store.eraser().find_payloads(id, SECRET).unwrap().payloads;
    let plan = store.eraser().plan(id, &seqs).unwrap();
    disk.keep_history();
    store.eraser().apply(&plan, None, WAIT).unwrap();
    let moments = disk.take_history();
    let cuts = cut_everywhere(&moments, FaultRun::from_env().count(6, 60), &|disk, _, seed| {
        let store = open_store(disk, seed + 50).map_err(|error| format!("{error:?}"))?;
        let found = read(&store, id).map_err(|error| format!("not readable: {error:?}"))?;
        // The last writer's `writer.closed` may be torn; it was never synced.
        let damaged = found.notes.iter().any(|note| matches!(note, ReadFinding::Damage { .. }));
        if found.data.len() != data.len() || damaged {
            return Err(format!("{} of {}: {:?}", found.data.len(), data.len(), found.notes));
        }
        for (was, is) in data.iter().zip(&found.data) {
            if is != was && !(is == "erased" && was.contains(SECRET)) {
                return Err(format!("{was} became {is}"));
            }
        }
        healthy(&store, id)?;
        // What is gone is known to be erased: nothing is left for an older bundle to bring back.
        let known = store.eraser().has_erased(id).map_err(|error| format!("{error:?}"))?;
        let is_gone = data.iter().zip(&found.data).any(|(was, is)| was != is);
        if (is_gone || store.eraser().is_erasing()) && !known {
            return Err("it is not known to be erased".to_owned());
        }
        // As the command does: what was begun is finished, and what is left is erased.
        store.eraser().finish(WAIT).map_err(|error| format!("{error:?}"))?;
        let left =
            store.eraser().find_payloads(id, SECRET).map_err(|error| format!("{error:?}"))?;
        if !left.payloads.is_empty() {
            let plan = store.eraser().plan(id, &left.payloads).map_err(|e| format!("{e:?}"))?;
            store.eraser().apply(&plan, None, WAIT).map_err(|error| format!("{error:?}"))?;
        }
        let holding = holding(disk);
        if !holding.is_empty() {
            return Err(format!("still in {holding:?}"));
        }
        healthy(&store, id)?;
        let after = read(&store, id).map_err(|error| format!("{error:?}"))?.data;
        go_on(&store, id, &after)?;
        store.remover().delete(id).map_err(|error| format!("{error:?}"))?;
        store.eraser().erase_unnamed(WAIT).map_err(|error| format!("{error:?}"))?;
        import(&store, &older).map_err(|error| format!("{error:?}"))?;
        let back = self::holding(disk);
        match back.is_empty() {
            true => Ok(()),
            false => Err(format!("an older bundle brought it back to {back:?}")),
        }
    });
    FaultRun::from_env().report("power cuts during an erasure", cuts, 1_000);
}
