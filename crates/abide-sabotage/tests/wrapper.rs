//! A small workspace is built with the wrapper, and its breaks are tried.

#![allow(missing_docs)]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use abide_sabotage::Workshop;

const LIB: &str = "\
pub fn add(a: u32, b: u32) -> u32 {
    let sum = a + b;
    sum.max(b)
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(2, 3), 5);
    }

    #[test]
    fn stays() {}
}
";

const LIST: &str = r#"
[[break]]
name = "adds wrongly"
file = "crates/a/src/lib.rs"
find = "a + b"
replace = "a"
tests = ["-p", "a", "--lib", "adds"]

[[break]]
name = "breaks nothing"
file = "crates/a/src/lib.rs"
find = "let sum = a"
replace = "let sum = 0 + a"
tests = ["-p", "a", "--lib", "adds"]

[[break]]
name = "is not reached"
file = "crates/a/src/lib.rs"
find = "let sum"
replace = "let mut sum"
tests = ["-p", "a", "--lib", "stays"]
"#;

/// A workspace in a directory that is removed at the end.
struct Lab(PathBuf);

impl Lab {
    fn new() -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sabotage-lab-{}-{number}", std::process::id());
        let lab = Self(std::env::temp_dir().join(name));
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n")
        };
        lab.write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/[ab]\"]\n");
        lab.write("crates/a/Cargo.toml", &package("a"));
        lab.write("crates/a/src/lib.rs", LIB);
        lab.write("crates/b/Cargo.toml", &package("b"));
        lab.write("crates/b/src/lib.rs", "pub fn two() -> u32 { 2 }\n");
        lab.write("crates/abide-sabotage/sabotage.toml", LIST);
        fs::create_dir(lab.0.join("workshop")).unwrap();
        for program in [env!("CARGO_BIN_EXE_sabotage"), env!("CARGO_BIN_EXE_abide-sabotage-rustc")]
        {
            let name = Path::new(program).file_name().unwrap();
            fs::copy(program, lab.0.join("workshop").join(name)).unwrap();
        }
        lab
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn run(&self, program: impl AsRef<Path>, arguments: &[&str], broken: Option<&str>) -> Output {
        let mut command = Command::new(program.as_ref());
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("CARGO_TARGET_DIR", self.0.join("target"))
            .env("PATH", Workshop::at(&self.0.join("workshop")).path_variable().unwrap())
            .env("RUSTC_WORKSPACE_WRAPPER", Workshop::WRAPPER)
            .env_remove("ABIDE_BREAK")
            .env_remove("ABIDE_SHARE")
            .envs(broken.map(|name| ("ABIDE_BREAK", name)));
        loop {
            match command.output() {
                // A child of another test has the copy open until it becomes its own program.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                done => return done.unwrap(),
            }
        }
    }

    /// What the runner says.
    fn sabotage(&self, arguments: &[&str]) -> String {
        let arguments = [arguments, &["--", "--workspace", "--offline"]].concat();
        let done = self.run(self.0.join("workshop/sabotage"), &arguments, None);
        format!("{}{}", text(&done.stdout), text(&done.stderr))
    }

    /// The packages that are compiled.
    fn compiled(&self) -> Vec<String> {
        let done = self.run(env!("CARGO"), &["test", "--workspace", "--offline", "--no-run"], None);
        let said = text(&done.stderr);
        assert!(done.status.success(), "{said}");
        let lines = said.lines().filter_map(|line| line.trim().strip_prefix("Compiling "));
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn one_build_is_broken_in_every_way() {
    let lab = Lab::new();
    let said = lab.sabotage(&[]);
    for line in [
        "1. adds wrongly: caught",
        "2. breaks nothing: NOT CAUGHT (",
        "3. is not reached: NOT CAUGHT: the broken code has not run",
        "1 caught, 0 skipped, 2 not",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(lab.sabotage(&["of no such name"]).contains("there is no such break"));
    assert_eq!(lab.compiled(), [""; 0], "it is the build of the tests");

    // By hand; and what panics is said to be where the original is.
    let arguments = ["test", "-p", "a", "--lib", "--offline"];
    assert!(lab.run(env!("CARGO"), &arguments, None).status.success());
    let broken = lab.run(env!("CARGO"), &arguments, Some("adds wrongly"));
    assert!(text(&broken.stdout).contains("crates/a/src/lib.rs:10:9"), "{broken:?}");

    // What changed is compiled, and nothing else.
    lab.write("crates/a/src/lib.rs", &LIB.replace("a + b;", "a + b; // It is more."));
    assert_eq!(lab.compiled(), ["a"]);
    assert_eq!(lab.compiled(), [""; 0]);
    let one_more = LIST.replace("adds wrongly", "adds b")
        + "[[break]]\nname = \"three\"\nfile = \"crates/b/src/lib.rs\"\nfind = \"2\"\n\
           replace = \"3\"\ntests = [\"-p\", \"b\", \"--lib\"]\n";
    lab.write("crates/abide-sabotage/sabotage.toml", &LIST.replace("stays", "adds"));
    lab.sabotage(&["--build"]);
    assert_eq!(lab.compiled(), [""; 0], "the tests are none of the compiler's business");
    lab.write("crates/abide-sabotage/sabotage.toml", &one_more);
    let said = lab.sabotage(&["--build"]);
    assert!(said.contains("Compiling a ") && said.contains("Compiling b "), "{said}");

    // A break that does not apply any more fails the build.
    lab.write("crates/a/src/lib.rs", &LIB.replace("let sum = a + b;", "let sum = b + a;"));
    let said = text(&lab.run(env!("CARGO"), &["test", "--workspace", "--offline"], None).stderr);
    let why = "break \"adds b\": its text does not stand in crates/a/src/lib.rs";
    assert!(said.contains(why), "{said}");
}

#[test]
fn what_is_compiled_is_linted_and_documented_without_its_breaks() {
    let lab = Lab::new();
    lab.sabotage(&["--build"]);
    // Each in a package with breaks and in one without.
    for (package, name) in [("a", "add"), ("b", "two")] {
        let path = format!("crates/{package}/src/lib.rs");
        let sound = fs::read_to_string(lab.0.join(&path)).unwrap();
        for (fault, lint) in [
            ("pub fn more(list: Vec<u8>) -> bool { list.len() == 0 }\n", "clippy::len-zero"),
            ("/// Is [`Nothing`].\npub fn more() {}\n", "rustdoc::broken-intra-doc-links"),
            ("#[cfg(test)]\nfn more() {}\n", "dead-code"),
        ] {
            lab.write(&path, &format!("{fault}{sound}"));
            let arguments = ["test", "--workspace", "--offline", "--no-run"];
            let done = lab.run(env!("CARGO"), &arguments, None);
            let said = text(&done.stderr);
            assert!(!done.status.success() && said.contains(lint), "{package}, {lint}: {said}");
            assert!(said.contains(&format!("{path}:")), "{package}, {lint}: {said}");
        }
        lab.write(&path, &format!("/// Is not [`{name}`].\npub fn more() {{}}\n{sound}"));
        assert_eq!(lab.compiled(), [package]);
        assert_eq!(lab.compiled(), [""; 0]);
    }
    assert_eq!(fs::read_dir(lab.0.join("workshop/scratch")).unwrap().count(), 0);

    // What is compiled already is linted again by other rules.
    let many = "pub fn more(a: u8, b: u8, c: u8) -> u8 { a + b + c }\n";
    lab.write("crates/b/src/lib.rs", many);
    lab.write("clippy.toml", "too-many-arguments-threshold = 3\n");
    assert_eq!(lab.compiled().last().map(String::as_str), Some("b"));
    lab.write("clippy.toml", "too-many-arguments-threshold = 2\n");
    let arguments = ["test", "--workspace", "--offline", "--no-run"];
    let said = text(&lab.run(env!("CARGO"), &arguments, None).stderr);
    assert!(said.contains("clippy::too-many-arguments"), "{said}");
}

#[test]
fn tests_are_linted_and_one_that_includes_the_library_has_its_breaks() {
    let lab = Lab::new();
    lab.write(
        "crates/a/tests/including.rs",
        "#[path = \"../src/lib.rs\"]\nmod library;\n\
         #[test]\nfn adds_here() {\n    assert_eq!(library::add(2, 3), 5);\n}\n",
    );
    let list = LIST.split("[[break]]").nth(1).unwrap();
    let list = list.replace("\"--lib\", \"adds\"", "\"--test\", \"including\", \"adds_here\"");
    lab.write("crates/abide-sabotage/sabotage.toml", &format!("[[break]]{list}"));
    let said = lab.sabotage(&[]);
    assert!(said.contains("1 caught, 0 skipped, 0 not"), "{said}");
    assert_eq!(lab.compiled(), [""; 0], "nothing has changed");

    lab.write(
        "crates/a/tests/plain.rs",
        "fn nothing_in(list: &[u8]) -> bool {\n    list.len() == 0\n}\n\
         #[test]\nfn stays() {\n    assert!(nothing_in(&[]));\n}\n",
    );
    let arguments = ["test", "--workspace", "--offline", "--no-run"];
    let done = lab.run(env!("CARGO"), &arguments, None);
    let said = text(&done.stderr);
    assert!(!done.status.success() && said.contains("clippy::len-zero"), "{said}");
    assert!(said.contains("crates/a/tests/plain.rs:"), "{said}");
}

#[test]
fn an_example_is_linted_and_no_program_is_made() {
    let lab = Lab::new();
    let example = "fn main() {\n    assert_eq!(a::add(2, 3), 5);\n}\n";
    lab.write("crates/a/examples/sum.rs", example);
    lab.sabotage(&["--build"]);
    assert_eq!(lab.compiled(), [""; 0], "it is known to be sound");
    assert_eq!(fs::read(lab.0.join("target/debug/examples/sum")).unwrap(), b"");

    let arguments = ["test", "--workspace", "--offline", "--no-run"];
    for (from, to, lint) in [
        ("5);", "5);\n    assert!(Vec::<u8>::new().len() == 0);", "clippy::len-zero"),
        ("fn main", "fn unused() {}\n\nfn main", "dead-code"),
        ("a::add", "a::subtract", "cannot find function `subtract`"),
    ] {
        lab.write("crates/a/examples/sum.rs", &example.replace(from, to));
        let done = lab.run(env!("CARGO"), &arguments, None);
        let said = text(&done.stderr);
        assert!(!done.status.success() && said.contains(lint), "{lint}: {said}");
        assert!(said.contains("crates/a/examples/sum.rs:"), "{lint}: {said}");
    }
}
