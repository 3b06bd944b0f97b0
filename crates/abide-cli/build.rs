//! Makes the program smaller by a twentieth: the linker folds functions whose machine code is the same, and
//! packs the relocations where the system's loader reads them so.

#![allow(clippy::print_stdout)] // It is how Cargo is told.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if !links_with_lld() {
        return;
    }
    println!("cargo:rustc-link-arg-bin=abide=-Wl,--icf=all");
    if reads_packed_relocations() {
        println!("cargo:rustc-link-arg-bin=abide=-Wl,-z,pack-relative-relocs");
    }
}

/// Since 1.90 the compiler links with its own linker on Linux, unless it is told otherwise. Others may not
/// know the options.
fn links_with_lld() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let target = env::var("TARGET").unwrap_or_default();
    target == "x86_64-unknown-linux-gnu"
        && env::var("HOST").is_ok_and(|host| host == target)
        && env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && !is_set("RUSTC_LINKER")
        && !is_set("CARGO_ENCODED_RUSTFLAGS")
        && env::var("RUSTC").is_ok_and(|rustc| version_of(&rustc, "--version") >= Some((1, 90)))
}

/// The C library's loader does since 2.36. An older one refuses such a program.
fn reads_packed_relocations() -> bool {
    version_of("getconf", "GNU_LIBC_VERSION") >= Some((2, 36))
}

/// The first two numbers of the version that a program prints after its name.
fn version_of(program: &str, argument: &str) -> Option<(u32, u32)> {
    let told = Command::new(program).arg(argument).output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let mut numbers = told.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
