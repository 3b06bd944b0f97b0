//! The command line as a user has it: the real binary, real files, real processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod acp;
mod agent_files;
mod artifacts;
mod bad_input;
mod bundle;
mod checkpoint;
mod checkpoint_files;
mod cleanup;
mod compact_over;
mod consent;
mod conversation;
mod copy;
mod demo;
mod enable;
mod environment;
mod erase;
mod fault;
mod fork;
mod forms;
mod go_back;
mod history;
mod hooks;
mod imports;
mod jobs;
mod json_page;
mod keys;
mod kill;
mod kill_files;
mod kill_hooks;
mod kill_relay;
mod kill_run;
mod kill_write_back;
mod lab;
mod liveness;
#[path = "../../abide-hooks/tests/runner/mutated_payload.rs"]
mod mutated_payload;
mod names;
mod next_step;
mod persons_store;
mod places;
mod plan_command;
mod plans;
#[allow(dead_code, reason = "only a part of it is needed here")]
#[path = "../../abide-secrets/tests/runner/random_text.rs"]
mod random_text;
mod reading;
mod record;
mod redaction;
mod relay;
mod repair;
mod resume;
mod run_check;
mod run_children;
mod run_config;
mod run_limits;
mod run_messages;
mod run_view;
mod schema;
mod secrets;
mod shared_commands;
mod shared_doctor;
mod shared_erase;
mod shared_machines;
mod shared_run;
mod shared_store;
mod show;
mod site;
mod state;
mod storage_faults;
mod stream;
mod syscalls;
mod task_page;
mod tasks;
mod terminal;
mod token_report;
mod tour;
mod usage;
#[path = "../../abide-secrets/tests/runner/vendor_shapes.rs"]
mod vendor_shapes;
mod write_back;
