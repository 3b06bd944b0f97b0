//! Power cuts at every storage operation of every scenario, of recovery itself too.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use abide_local::LocalStore;
use abide_model::{NewSession, Store};
use abide_testkit::{FaultRun, FaultSize, Moment, SimDisk};

use crate::run::{
    Run, Step, after_power_cut, exists, healthy, open_store, options, read, scenarios, store_path,
};

/// Tries `seeds` power cuts at each moment, on both processors.
pub fn cut_everywhere(
    moments: &[Moment],
    seeds: u64,
    check: &(dyn Fn(&SimDisk, &Moment, u64) -> Result<(), String> + Sync),
) -> u64 {
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let done = &done;
            scope.spawn(move || {
                for (index, moment) in
                    moments.iter().enumerate().filter(|(index, _)| index % 2 == worker)
                {
                    for seed in 0..seeds {
                        let disk = SimDisk::at(moment);
                        disk.power_cut(
                            (FaultRun::from_env().seed() + seed) * 1_000_003 + index as u64,
                        );
                        if let Err(error) = check(&disk, moment, seed) {
                            panic!("moment {index}, seed {seed}: {error}");
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    done.into_inner()
}

/// Stands for all that is on a disk.
fn content(disk: &SimDisk) -> u64 {
    let mut all = DefaultHasher::new();
    for path in disk.files() {
        disk.bytes(&path).hash(&mut all);
        path.hash(&mut all);
    }
    all.finish()
}

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let mut cuts = 0;
    for (number, (name, steps)) in (0..).zip(scenarios()) {
        let mut run = Run::new(number);
        run.disk.keep_history();
        for step in &steps {
            run.step(*step).unwrap();
        }
        let moments = run.disk.take_history();
        let (id, sent) = (run.id, run.sent.clone());
        println!("{name}: {} operations", moments.len());
        cuts +=
            cut_everywhere(&moments, FaultRun::from_env().count(8, 520), &|disk, moment, seed| {
                after_power_cut(disk, id, moment.note.0, &sent, seed)
                    .map_err(|error| format!("{name}: {error}"))?;
                if seed % 4 == 0 {
                    healthy(&open_store(disk, seed).unwrap(), id)
                        .map_err(|error| format!("{name}: {error}"))?;
                }
                Ok(())
            });
    }
    FaultRun::from_env().report("power cuts", cuts, 200_000);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes_during_recovery() {
    let mut cuts = 0;
    // The moments of the first cut are fewer in a smaller run, and those of the second as many.
    let seeds = if FaultRun::from_env().size() == FaultSize::Small { 3 } else { 12 };
    for (number, (name, steps)) in (0..).zip(scenarios()) {
        let mut run = Run::new(number);
        run.disk.keep_history();
        for step in &steps {
            run.step(*step).unwrap();
        }
        let moments = run.disk.take_history();
        let (id, sent) = (run.id, run.sent.clone());
        let every = moments.len().div_ceil(FaultRun::from_env().len(4, 40));
        for (index, moment) in moments.iter().enumerate().filter(|(index, _)| index % every == 0) {
            let disk = SimDisk::at(moment);
            disk.power_cut(FaultRun::from_env().seed() + index as u64);
            let before = read(&open_store(&disk, 3).unwrap(), id).unwrap().data;
            disk.keep_history();
            after_power_cut(&disk, id, moment.note.0, &sent, 3).unwrap();
            let during = disk.take_history();
            cuts += cut_everywhere(&during, seeds, &|disk, _, seed| {
                let found = read(&open_store(disk, seed).unwrap(), id)
                    .map_err(|error| format!("{error:?}"))?;
                // What the first recovery had taken up again, and had not made durable, may go.
                let prefix =
                    found.data.as_slice() == before.get(..found.data.len()).unwrap_or_default();
                if !prefix || (found.data.len() as u64) < moment.note.0 {
                    return Err(format!("{name}: {} became {}", before.len(), found.data.len()));
                }
                after_power_cut(disk, id, moment.note.0, &sent, seed)
            });
        }
    }
    FaultRun::from_env().report("power cuts during recovery", cuts, 50_000);
}

#[test]
fn a_session_that_was_made_is_there_after_a_power_cut() {
    let disk = SimDisk::new(Path::new("/sim"));
    disk.keep_history();
    let store = LocalStore::init(&store_path(), options(&disk, 5)).unwrap();
    let mut made = Vec::new();
    for key in [None, Some("client/1"), Some("client/2"), None] {
        let session =
            key.map_or_else(NewSession::default, |key| NewSession::default().with_key(key));
        made.push((key, store.create(session).unwrap().id));
        disk.note(made.len() as u64, 0);
    }
    let moments = disk.take_history();
    let cuts =
        cut_everywhere(&moments, FaultRun::from_env().count(10, 60), &|disk, moment, seed| {
            let made = &made[..usize::try_from(moment.note.0).unwrap()];
            let store = LocalStore::init(&store_path(), options(disk, seed + 100))
                .map_err(|error| format!("{error:?}"))?;
            for (key, id) in made {
                if !exists(&store, *id) {
                    return Err(format!("session {id} is gone"));
                }
                if let Some(key) = key {
                    let again = store.create(NewSession::default().with_key(*key));
                    if again.as_ref().ok().map(|known| known.id) != Some(*id) {
                        return Err(format!("{key} leads to {again:?}, not to {id}"));
                    }
                }
            }
            // One that was begun can be made after all, once.
            let one = store
                .create(NewSession::default().with_key("client/2"))
                .map_err(|error| format!("{error:?}"))?;
            let two = store
                .create(NewSession::default().with_key("client/2"))
                .map_err(|error| format!("{error:?}"))?;
            if one.id == two.id { Ok(()) } else { Err("two sessions for one key".to_owned()) }
        });
    FaultRun::from_env().report("power cuts while sessions are made", cuts, 1_000);
}

/// Many buffered events, snapshots between them, and a power cut: the snapshot and its last line
/// may survive where lines before it do not.
#[test]
fn a_snapshot_vouches_only_for_what_is_durable() {
    let steps = [Step::Buffered; 9];
    let mut run = Run::new(9);
    run.disk.keep_history();
    for step in steps {
        run.step(step).unwrap();
    }
    let moments = run.disk.take_history();
    let (id, sent) = (run.id, run.sent.clone());
    let faults = FaultRun::from_env();
    // Most of so many cuts leave what another has left: that is checked once.
    let seen = Mutex::new(HashSet::new());
    let cuts = cut_everywhere(&moments, faults.count(300, 3_000), &|disk, moment, seed| {
        if !seen.lock().unwrap().insert((moment.note.0, content(disk))) {
            return Ok(());
        }
        after_power_cut(disk, id, moment.note.0, &sent, seed)
    });
    println!("disks that differ: {}", seen.into_inner().unwrap().len());
    faults.report("power cuts over buffered events", cuts, 20_000);
}
