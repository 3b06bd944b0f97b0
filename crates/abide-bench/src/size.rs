//! Room on the disk and bytes written, against the text that was recorded.

use std::path::Path;

use abide::maintenance::Upkeep;

use crate::Outcome;
use crate::bench::{Bench, bytes_below};
use crate::child::{What, ask};
use crate::figure::{Better, Figure, Target, rounded};
use crate::fixture::Place;
use crate::text::PIECE;
use crate::verify::segments;

fn figure(name: &str, most: f64) -> Figure {
    let target = Target::AtMost(most);
    Figure::new(format!("size.{name}"), "bytes/byte", Better::Lower, target)
}

/// All files of a session that was recorded and closed with the default settings.
fn closed(bench: &Bench) -> Outcome {
    let dir = bench.fresh()?;
    let place = Place::of(dir.path(), Upkeep::Beside)?;
    let count = bench.scale.of(10_000);
    let id = place.filled(bench.text(), count)?;
    let room = bytes_below(&place.local.session_dir(id)?)?;
    let mut closed = figure("closed", 0.45);
    closed.push(room as f64 / (count * PIECE) as f64);
    closed.note("events", count);
    closed.note("text", bench.text().describe());
    bench.report(&closed)
}

pub(crate) fn measure(bench: &Bench) -> Outcome {
    closed(bench)?;
    let dir = bench.fresh()?;
    // One round: bytes do not vary with the load of the machine.
    let filled = ask(What::Fill, dir.path(), bench.scale.of(50_000), None)?;
    let id = filled.session.ok_or("the child made no session")?;
    let payload = filled.text as f64;
    let store = dir.path().join(".abide");
    let before = kept(&store)?;
    let mut plain = figure("plain", 1.2);
    plain.push(before as f64 / payload);
    plain.note("events", filled.events);
    plain.note("payload_bytes", filled.text);
    plain.note("escape_overhead", rounded(filled.text_as_json as f64 / payload));
    plain.note("over_escaped", rounded(before as f64 / filled.text_as_json as f64));
    plain.note("whole_store", rounded(bytes_below(&store)? as f64 / payload));
    plain.note("text", bench.text().describe());
    bench.report(&plain)?;

    let mut written = figure("written", 1.35);
    written.push(filled.written as f64 / payload);
    written.note("appends_per_s", rounded(filled.events as f64 * 1e3 / filled.ms));
    bench.report(&written)?;

    let was = segments(&store.join("sessions"))?;
    let was_plain: u64 = lengths(&was)?;
    let count = Place::of(dir.path(), Upkeep::ByHand)?.seal(id)?;
    let after = kept(&store)?;
    let still_plain: u64 = lengths(&was)?;
    let mut sealed = figure("sealed", 0.35);
    sealed.push(after as f64 / payload);
    let sealed_from = was_plain - still_plain;
    sealed.note("sealed_part", rounded(sealed_from as f64 / was_plain as f64));
    sealed.note("sealed_segments", count);
    sealed.note("segments", was.len());
    bench.report(&sealed)?;

    // As it is for a session much longer than a segment.
    if sealed_from == 0 {
        bench.skip("size.sealed.without_last", "no segment is full");
        return Ok(());
    }
    let mut packed = figure("sealed.without_last", 0.35);
    let payload_sealed = payload * sealed_from as f64 / was_plain as f64;
    packed.push((after - still_plain) as f64 / payload_sealed);
    packed.note("of_plain", rounded((after - still_plain) as f64 / sealed_from as f64));
    bench.report(&packed)
}

/// The journals and the objects.
fn kept(store: &Path) -> Outcome<u64> {
    let journals = lengths(&segments(&store.join("sessions"))?)?;
    Ok(journals + bytes_below(&store.join("objects"))?)
}

/// The bytes of those that are there.
fn lengths(files: &[std::path::PathBuf]) -> Outcome<u64> {
    let mut bytes = 0;
    for file in files {
        match file.metadata() {
            Ok(metadata) => bytes += metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
