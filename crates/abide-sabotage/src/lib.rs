//! Deliberate breaks of abide's code, all of them in one build.
//!
//! `sabotage.toml` lists the breaks: a text in a source file, what to put in its place, and the
//! tests that must then fail. Two programs use the list:
//!
//! - `abide-sabotage-rustc` is a compiler wrapper (`RUSTC_WORKSPACE_WRAPPER`). It compiles a copy of
//!   each package in which every break stands beside the code it breaks, behind a switch:
//!   `{ if SWITCH { broken } else { as it is } }`. The environment variable `ABIDE_BREAK` switches a
//!   break on, by its name.
//! - `sabotage` runs the tests that the list names for each break, with that break switched on, and
//!   fails unless each break is caught.
//!
//! Tests, fault suites and deliberate breaks therefore share one build. A build without the wrapper
//! is not affected in any way: the sources hold no switch, so that a released binary cannot have one.
//!
//! ```sh
//! wrapper=$(scripts/sabotage --wrapper)
//! export PATH=${wrapper%/*}:$PATH RUSTC_WORKSPACE_WRAPPER=${wrapper##*/}
//! cargo test --workspace --all-features --locked    # the ordinary tests
//! scripts/sabotage                                  # every break, same build
//! ```
//!
//! Cargo gives what is built with a wrapper other file names, so that builds with and without it do
//! not replace each other. It does not do so for `target/debug/abide` and the like: those are links
//! to whatever was built last.

mod dep_info;
mod instrument;
mod list;
mod mirror;
mod workshop;

pub use dep_info::DepInfo;
pub use instrument::{SWITCH, WITNESS, instrument};
pub use list::{Break, Edit, Fault, List, Target};
pub use mirror::Mirror;
pub use workshop::Workshop;
