//! One binary for the tests of the test kit.

mod map;
mod memory;
mod postgres;
mod stub_agent;
mod stub_model;
mod untested;
