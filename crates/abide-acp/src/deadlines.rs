//! What is to happen if something else has not by then.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

type Act = Box<dyn FnOnce() + Send>;

/// A thread that waits for many times at once. It ends when this is dropped.
#[derive(Clone)]
pub(crate) struct Deadlines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By time, and by number among those of one time.
    acts: BTreeMap<(Instant, u64), Act>,
    next: u64,
    ended: bool,
}

/// Which act, to call it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline(Instant, u64);

impl Deadlines {
    pub(crate) fn start() -> std::io::Result<Self> {
        let deadlines = Self(Arc::default());
        let shared = Arc::clone(&deadlines.0);
        std::thread::Builder::new().name("deadlines".into()).spawn(move || shared.run())?;
        Ok(deadlines)
    }

    /// Does this at that time, on a thread of its own; it must not wait for anything.
    pub(crate) fn at(&self, when: Instant, act: impl FnOnce() + Send + 'static) -> Deadline {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.acts.insert((when, number), Box::new(act));
        self.0.changed.notify_one();
        Deadline(when, number)
    }

    /// It is not to happen any more.
    pub(crate) fn call_off(&self, deadline: Deadline) {
        self.0.lock().acts.remove(&(deadline.0, deadline.1));
    }

    /// Nothing is to happen any more.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.acts.clear();
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
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
