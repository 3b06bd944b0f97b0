//! A stubbed agent as a program, for tests and scripts that put a proxy before it.

use std::io;
use std::process::ExitCode;

use abide_testkit::stub_agent::{StubAgent, StubOptions, USAGE};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match StubOptions::parse(&arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("Error: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match StubAgent::serve(options, io::stdin().lock(), Box::new(io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}
