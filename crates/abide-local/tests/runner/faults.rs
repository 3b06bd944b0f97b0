//! Every storage operation of every scenario failed, once and for good.

use abide_testkit::{Fault, FaultKind, FaultRun, Lasting};

use crate::run::{Run, go_on, healthy, open_store, read, scenarios};

/// What was acknowledged is there, in order, and nothing is there that was not sent.
fn whole(found: &[String], run: &Run) -> Result<(), String> {
    let mut rest = run.sent.iter().zip(&run.acknowledged);
    for data in found {
        loop {
            match rest.next() {
                Some((sent, _)) if sent == data => break,
                Some((_, false)) => {}
                Some((sent, true)) => {
                    return Err(format!("{sent} was acknowledged and is not there"));
                }
                None => return Err(format!("{data} was never sent, or stands twice")),
            }
        }
    }
    match rest.find(|(_, acknowledged)| **acknowledged) {
        Some((sent, _)) => Err(format!("{sent} was acknowledged and is not there")),
        None => Ok(()),
    }
}

fn one_fault(name: &str, steps: &[crate::run::Step], fault: Fault) -> Result<bool, String> {
    let mut run = Run::new(7);
    run.disk.set_faults(vec![fault], fault.at);
    let mut failed = false;
    for step in steps {
        if run.step(*step).is_err() {
            failed = true;
            // An agent tries once more.
            let _ = run.step(*step);
        }
    }
    let tell = |error: String| format!("{name}, {fault:?}: {error}");
    for power in [false, true] {
        let disk = run.disk.clone();
        if power {
            disk.power_cut(fault.at * 31 + 5);
        } else {
            disk.kill();
        }
        let store = open_store(&disk, 8).map_err(|error| tell(format!("{error:?}")))?;
        let found = read(&store, run.id).map_err(|error| tell(format!("{error:?}")))?;
        whole(&found.data, &run)
            .map_err(|error| tell(format!("power cut {power}: {error}; {:?}", found.notes)))?;
        go_on(&store, run.id, &found.data).map_err(tell)?;
        healthy(&store, run.id).map_err(tell)?;
    }
    Ok(failed)
}

#[test]
fn every_operation_may_fail_once_and_for_good() {
    let kinds = [FaultKind::Io, FaultKind::Full, FaultKind::Short, FaultKind::Interrupted];
    let (mut tried, mut failed) = (0, 0);
    for (name, steps) in scenarios() {
        let mut run = Run::new(7);
        run.disk.set_faults(Vec::new(), 0);
        for step in &steps {
            run.step(*step).unwrap();
        }
        let operations = run.disk.operations();
        drop(run);
        for at in FaultRun::from_env().places(operations, 11, 1) {
            for kind in kinds {
                for lasting in [Lasting::Once, Lasting::ForGood] {
                    let fault = Fault { at, kind, lasting };
                    let did =
                        one_fault(name, &steps, fault).unwrap_or_else(|error| panic!("{error}"));
                    tried += 1;
                    failed += u64::from(did);
                }
            }
        }
        println!("{name}: {operations} operations");
    }
    assert!(failed * 10 > tried, "faults must show: {failed} of {tried}");
    FaultRun::from_env().report("operations failed", tried, 9_000);
}
