//! Actions that run at a given time unless they are cancelled before.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

type DeadlineAction = Box<dyn FnOnce() + Send>;

/// A thread that waits for many deadlines. It ends when `end` is called.
#[derive(Clone)]
pub(crate) struct Deadlines(Arc<DeadlineTimer>);

#[derive(Default)]
struct DeadlineTimer {
    state: Mutex<DeadlineState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeadlineState {
    /// By time, then by number.
    acts: BTreeMap<(Instant, u64), DeadlineAction>,
    next: u64,
    ended: bool,
}

/// Identifies an action, to cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline(Instant, u64);

impl Deadlines {
    pub(crate) fn start() -> std::io::Result<Self> {
        let deadlines = Self(Arc::default());
        let shared = Arc::clone(&deadlines.0);
        std::thread::Builder::new().name("deadlines".into()).spawn(move || shared.run())?;
        Ok(deadlines)
    }

    /// Runs `act` at that time on the deadline thread; it must not block.
    pub(crate) fn at(&self, when: Instant, act: impl FnOnce() + Send + 'static) -> Deadline {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.acts.insert((when, number), Box::new(act));
        self.0.changed.notify_one();
        Deadline(when, number)
    }

    /// Cancels an action.
    pub(crate) fn call_off(&self, deadline: Deadline) {
        self.0.lock().acts.remove(&(deadline.0, deadline.1));
    }

    /// Cancels all actions and ends the thread.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.acts.clear();
        self.0.changed.notify_one();
    }
}

impl DeadlineTimer {
    fn lock(&self) -> std::sync::MutexGuard<'_, DeadlineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let first = state.acts.first_key_value().map(|((when, _), _)| *when);
            match first {
                Some(when) if when <= now => {
                    let act = state.acts.pop_first();
                    drop(state);
                    if let Some((_, act)) = act {
                        act();
                    }
                    state = self.lock();
                }
                Some(when) => {
                    let waited = self.changed.wait_timeout(state, when - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
