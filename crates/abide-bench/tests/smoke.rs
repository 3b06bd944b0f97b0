//! The program runs and says what it measured.

use std::process::Command;

#[test]
fn a_figure_is_one_line_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_abide-bench"))
        .args(["--quick", "--rounds", "1", "append.one", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines.iter().map(|line| &line["figure"]).collect();
    assert_eq!(names, ["append.one", "append.one.syncs"]);
    assert!(lines.iter().all(|line| line["best"].as_f64() > Some(0.0)));
    assert_eq!(lines[1]["best"], 1.0, "one sync for each acknowledgement");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}
