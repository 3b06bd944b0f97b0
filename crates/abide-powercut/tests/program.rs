//! The program itself. That it is tested lets the build of all tests make it, for `scripts/powercuts`.

use std::process::Command;

#[test]
fn it_tells_how_it_is_called() {
    let told = Command::new(env!("CARGO_BIN_EXE_abide-powercut")).arg("--help").output().unwrap();
    assert!(told.status.success());
    assert!(String::from_utf8_lossy(&told.stdout).contains("--cuts"));
}
