//! Runs a command with a PostgreSQL server of its own: `private-postgres COMMAND…`. The server is
//! named in `ABIDE_TEST_POSTGRES` and ends with the command. `private-postgres --check` says whether
//! one can be started. Exit code 77 where it cannot, else that of the command.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use abide_testkit::{PostgresSettings, PrivatePostgres};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: private-postgres --check | COMMAND…");
        return ExitCode::from(2);
    };
    let server = match PrivatePostgres::start(PostgresSettings::default()) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(77);
        }
    };
    if program == "--check" {
        return ExitCode::SUCCESS;
    }
    let mut command = Command::new(&program);
    command.args(arguments).env("ABIDE_TEST_POSTGRES", server.url("postgres"));
    match command.status() {
        Ok(status) => {
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("Error: {}: {error}", program.display());
            ExitCode::from(127)
        }
    }
}
