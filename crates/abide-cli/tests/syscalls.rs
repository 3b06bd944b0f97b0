//! Every command that writes, with faults of its system calls: errors once and for good, a full
//! disk, kills, writes that are cut short. Nothing acknowledged is lost, what was reported as
//! done is done, and the same command again succeeds.
//!
//! `ABIDE_SEED=N` chooses other faults; `ABIDE_FAULT=TEXT` only those whose name has this text.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_testkit::{FaultRun, Random};

use crate::environment::StoreLayout;
use crate::fault::{Call, Fault, skipped};
use crate::site::{ACTIONS, Action, Site};

/// Two faults at a time.
const WORKERS: usize = 2;
/// What the full run must have done.
const MUST: usize = 2_000;
/// So many failures are enough for a worker.
const FAILURES: usize = 5;

/// What a fault is called, so that it can be asked for.
fn name(action: Action, fault: &Fault) -> String {
    format!("{action:?}/{fault}")
}

/// What was done how often, by command and by call, and what failed.
#[derive(Default)]
struct Tally {
    done: usize,
    counts: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Tally {
    fn count(&mut self, what: String, times: usize) {
        *self.counts.entry(what).or_default() += times;
    }

    fn add(mut self, other: Self) -> Self {
        self.done += other.done;
        self.failures.extend(other.failures);
        for (what, times) in other.counts {
            self.count(what, times);
        }
        self
    }
}

/// Takes faults from the list until it is at its end.
fn work(site: &Site, faults: &[(Action, Fault)], next: &AtomicUsize) -> Tally {
    let mut tally = Tally::default();
    while tally.failures.len() < FAILURES {
        let Some((action, fault)) = faults.get(next.fetch_add(1, Ordering::Relaxed)) else {
            break;
        };
        match catch_unwind(AssertUnwindSafe(|| site.check(*action, fault))) {
            Ok(true) => {
                tally.done += 1;
                tally.count(format!("{action:?}").to_lowercase(), 1);
                tally.count(fault.sort().to_owned(), 1);
            }
            Ok(false) => tally.count("did not come".to_owned(), 1),
            Err(_) => tally.failures.push(name(*action, fault)),
        }
    }
    tally
}

/// The faults that the seed chooses, of all that there are.
fn chosen(site: &Site, count: usize) -> (Vec<(Action, Fault)>, usize) {
    let mut random = Random::new(FaultRun::from_env().seed());
    let mut faults = Vec::new();
    for action in ACTIONS {
        let all = site.faults(action, &mut random);
        faults.extend(all.into_iter().map(|fault| (action, fault)));
    }
    let all = faults.len();
    for at in (1..all).rev() {
        faults.swap(at, random.index(at + 1));
    }
    if let Ok(only) = std::env::var("ABIDE_FAULT") {
        faults.retain(|(action, fault)| name(*action, fault).contains(&only));
        assert!(!faults.is_empty(), "there is no fault {only}");
    } else {
        // Some more than must be: a call of a thread may not come in another run.
        faults.truncate(count + count / 10);
    }
    (faults, all)
}

#[test]
fn what_was_acknowledged_stays_whatever_call_fails() {
    calls_fail(StoreLayout::Project, FaultRun::from_env().len(36, MUST), "what_was");
}

#[test]
fn in_the_persons_store_it_stays_too() {
    calls_fail(StoreLayout::Person, FaultRun::from_env().len(18, MUST / 4), "in_the_persons");
}

fn calls_fail(layout: StoreLayout, count: usize, test: &str) {
    if skipped() {
        return;
    }
    let sites: Vec<Site> = std::thread::scope(|scope| {
        let making: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| Site::with(layout))).collect();
        making.into_iter().map(|site| site.join().unwrap()).collect()
    });
    let (faults, all) = chosen(&sites[0], count);
    println!("system calls that may fail, and ways: {all}");
    let next = AtomicUsize::new(0);
    let tally = std::thread::scope(|scope| {
        let working = sites.iter().map(|site| scope.spawn(|| work(site, &faults, &next)));
        let working: Vec<_> = working.collect();
        working.into_iter().map(|worker| worker.join().unwrap()).fold(Tally::default(), Tally::add)
    });
    println!("system call faults: {} {:?}", tally.done, tally.counts);
    let seed = FaultRun::from_env().seed();
    for failure in &tally.failures {
        println!(
            "failed: {failure}\nagain: ABIDE_SEED={seed} ABIDE_FAULT='{failure}' \
             cargo test -p abide-cli --test runner syscalls::{test} -- --nocapture"
        );
    }
    assert!(tally.failures.is_empty(), "{:?} with seed {seed}", tally.failures);
    let must =
        if std::env::var("ABIDE_FAULT").is_ok() { 1 } else { FaultRun::from_env().len(1, count) };
    assert!(tally.done >= must, "{} faults of {must}", tally.done);
}

#[test]
fn nothing_is_acknowledged_when_no_sync_succeeds() {
    if skipped() {
        return;
    }
    let site = Site::new();
    for errno in ["EIO", "ENOSPC"] {
        let call = Call { name: "fdatasync".to_owned(), at: 1 };
        let fault = Fault::Error { call, errno, for_good: true };
        assert!(site.check(Action::Record, &fault), "{fault} did not come");
    }
}

/// A file of the workspace that cannot be opened for want of space is not one that is closed to us.
#[test]
fn a_checkpoint_without_its_files_is_not_made_on_a_full_disk() {
    if skipped() {
        return;
    }
    let site = Site::new();
    let mut faults = site.faults(Action::Checkpoint, &mut Random::new(1));
    faults.retain(|fault| match fault {
        Fault::Error { call, errno, for_good } => {
            call.name == "openat" && *errno == "ENOSPC" && !for_good
        }
        _ => false,
    });
    let mut struck = 0;
    for fault in &faults {
        println!("{}", name(Action::Checkpoint, fault));
        struck += usize::from(site.check(Action::Checkpoint, fault));
    }
    // Which thread opens what is not the same each time.
    assert!(struck > 8, "{struck} of {faults:?}");
}

#[test]
fn a_write_that_is_cut_short_is_not_taken_for_a_whole_one() {
    if skipped() {
        return;
    }
    let site = Site::new();
    let mut random = Random::new(FaultRun::from_env().seed());
    for action in [Action::Record, Action::Import] {
        let mut limits = site.faults(action, &mut random);
        limits.retain(|fault| matches!(fault, Fault::Limit { dies: false, .. }));
        assert!(limits.len() > 4, "{limits:?}");
        for limit in limits.iter().step_by(2) {
            assert!(site.check(action, limit), "{}", name(action, limit));
        }
    }
}
