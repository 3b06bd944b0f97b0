//! Payloads that nobody means well with are recorded as far as they can be, and never stop the others.

use std::collections::BTreeMap;

use abide_testkit::{FaultRun, Random};

use crate::hooked_agent::{HookedAgent, until};
use crate::mutated_payload::{SAMPLES, mutated};

#[test]
fn payloads_that_were_changed_are_recorded_and_stop_nothing() {
    let run = FaultRun::from_env();
    let each = run.count(250, 10_000);
    std::thread::scope(|scope| {
        for (agent, sample) in SAMPLES {
            scope.spawn(move || {
                let mut random = Random::new(run.seed() ^ 0x6f6f_6b73);
                let home = HookedAgent::of(agent);
                let inboxes = home.inboxes();
                let mut landed: BTreeMap<String, u64> = BTreeMap::new();
                for round in 0..each {
                    let payload = mutated(sample, &mut random);
                    let payload = String::from_utf8_lossy(&payload);
                    let Some(report) = (home.kind.hooks().unwrap().reader)(&payload) else {
                        continue;
                    };
                    let inbox = inboxes.session(home.kind, &report.session);
                    inbox.land(&report.session, &payload).unwrap();
                    *landed.entry(report.session).or_default() += 1;
                    if round % 50 == 49 || round + 1 == each {
                        until("all are recorded", || {
                            for inbox in inboxes.sessions() {
                                home.with_recorder(|recorder| {
                                    recorder.drain(&inbox, None).unwrap()
                                });
                            }
                            inboxes.sessions().iter().all(abide_hooks::SessionInbox::is_empty)
                        });
                    }
                }
                until("all are recorded", || {
                    home.sweeps();
                    inboxes.sessions().iter().all(abide_hooks::SessionInbox::is_empty)
                });
                assert!(landed.values().sum::<u64>() > each / 4, "{agent}: {landed:?}");
                assert_eq!(home.store.sessions().unwrap().len(), landed.len(), "{agent}");
            });
        }
    });
}
