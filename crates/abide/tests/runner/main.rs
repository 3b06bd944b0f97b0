//! One binary for the tests of the library.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod agent;
mod answer;
mod copy;
mod default_store;
mod examples;
mod model;
mod plan;
mod rewind;
mod root_names;
mod tasks;
mod undo_redo;
