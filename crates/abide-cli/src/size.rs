//! Bytes as people read them.

/// `17 B`, `4.2 kB`, `1.3 GB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while scaled >= 999.95 {
        let Some(next) = units.next() else { break };
        scaled /= 1000.0;
        unit = Some(next);
    }
    format!("{scaled:.1} {}", unit.unwrap_or(&"TB"))
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_a_unit_that_fits() {
        assert_eq!(size(17), "17 B");
        assert_eq!(size(4_200), "4.2 kB");
        assert_eq!(size(999_960), "1.0 MB");
        assert_eq!(size(1_340_000_000), "1.3 GB");
        assert_eq!(size(u64::MAX), "18446744.1 TB");
    }
}
