//! One binary for the tests of the test kit.

mod memory;
mod postgres;
mod stub_agent;
mod stub_model;
