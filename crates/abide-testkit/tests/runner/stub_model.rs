//! The stubbed model as a program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_prints_its_port_answers_and_keeps_a_log() {
    let log = std::env::temp_dir().join(format!("stub-model-{}.log", std::process::id()));
    let mut program = Command::new(env!("CARGO_BIN_EXE_stub-model"));
    program.args(["0", "echo"]).arg(&log).stdout(Stdio::piped());
    let mut program = Program(program.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();

    let body = r#"{"messages":[{"role":"user","content":"Say this."}]}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#""text":"Say this.""#), "{answer}");

    let logged = std::fs::read_to_string(&log).unwrap();
    let _ = std::fs::remove_file(&log);
    assert_eq!(logged.lines().count(), 1);
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&logged), value(body));
}

#[test]
fn what_it_does_not_know_it_says() {
    for arguments in [&["0"][..], &["0", "nonsense"], &["x", "echo"], &["0", "tools:many"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_stub-model")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
