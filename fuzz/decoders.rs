//! A target of `abide-fuzz` under libFuzzer: `ABIDE_TARGET` says which.

#![no_main]

use std::sync::LazyLock;

use abide_fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("ABIDE_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| panic!("ABIDE_TARGET={name}: no such target"))
});

libfuzzer_sys::fuzz_target!(init: { LazyLock::force(&TARGET); }, |data: &[u8]| { (TARGET.run)(data); });
