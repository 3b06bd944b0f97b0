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
    assert_eq!(names, ["append.one", "append.one.extended", "append.one.syncs"]);
    assert!(lines.iter().all(|line| line["best"].as_f64() > Some(0.0)));
    assert_eq!(lines[2]["best"], 1.0, "one sync for each acknowledgement");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_workspace_is_measured_beside_git() {
    let dir = tempfile::tempdir().unwrap();
    let (trees, work) = (dir.path().join("trees"), dir.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    for number in 0..60 {
        let inner = trees.join(format!("tiny/{}", number % 7));
        std::fs::create_dir_all(&inner).unwrap();
        let text = format!("line of file {number}\n").repeat(20 + number);
        std::fs::write(inner.join(format!("{number}.txt")), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_abide-bench"))
        .args(["workspace", "--quick", "--rounds", "1", "first", "size", "unchanged", "ten"])
        .args(["full", "--dir"])
        .arg(&work)
        .arg("--trees")
        .arg(&trees)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines.iter().map(|line| line["figure"].as_str().unwrap()).collect();
    let wanted = [
        "first.git",
        "first.bare",
        "size.git",
        "restore.full.git",
        "walk",
        "unchanged.walk",
        "unchanged.git",
        "ten.walk",
        "ten.git",
        "restore.ten.git",
    ];
    assert_eq!(names, wanted.map(|name| format!("workspace.tiny.{name}")));
    assert!(lines.iter().all(|line| line["best"].as_f64() > Some(0.0)), "{lines:?}");
    assert_eq!(lines[0]["files"], 60);
    assert_eq!(lines[0]["bytes"], lines[0]["bytes_of_git"]);
    assert_eq!(lines[3].get("differs"), None, "both restore the same");
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "nothing is left behind");
}
