//! What is measured on several file systems: the disk, and images in memory.

use crate::bench::Bench;
use crate::image::{Images, KINDS};
use crate::machine::measured;
use crate::peers::append_table::append_table;
use crate::peers::appends::Appends;
use crate::peers::many_table::ManyTable;
use crate::peers::{Arguments, Part, Starter};
use crate::{Outcome, append, filling, million};

/// The name of the disk, among file systems.
const DISK: &str = "disk";

/// What is measured on the disk and on the images.
pub(crate) fn measure(
    bench: &Bench,
    starter: &Starter,
    arguments: &Arguments,
    images: Option<Result<Images, String>>,
) -> Outcome {
    let heading = measured(bench)?;
    let mut appends = vec![format!("{heading} Text: {}.\n", bench.text().describe())];
    let mut many = ManyTable::new(&heading);
    let mut filled = vec![format!("{heading}\n")];
    let mut on = |place: &str, title: &str, bench: &Bench| -> Outcome {
        if arguments.wants(Part::Appends) {
            let shown = Appends { bench, starter }.measure()?;
            appends.push(append_table(title, &shown));
        }
        if arguments.wants(Part::Many) {
            append::sessions(bench)?;
            append::shared(bench)?;
            if place == DISK {
                million::measure(bench)?;
            }
            many.add(title, bench);
            filling::measure(bench)?;
            filled.push(filling::table(title, bench));
        }
        Ok(())
    };
    on(DISK, &format!("the disk, {}", bench.file_system()?), bench)?;
    let mut absent = Vec::new();
    match images {
        None => absent.push("Not run: file systems of its own: without --images.".to_owned()),
        Some(Err(reason)) => absent.push(format!("Not run: file systems of its own: {reason}.")),
        Some(Ok(images)) => {
            for kind in &KINDS {
                match images.mount(kind) {
                    Ok(image) => on(kind.name, kind.title, &bench.on(kind.name, image.dir()))?,
                    Err(reason) => absent.push(format!("Not run: {}: {reason}.", kind.name)),
                }
            }
        }
    }
    for line in &absent {
        bench.skip("peers.images", line);
    }
    if arguments.wants(Part::Appends) {
        let lacking = Appends::lacking(starter)?;
        appends.extend(absent.iter().chain(&lacking).map(|line| format!("{line}\n")));
        bench.page().write("appends", &appends.join("\n"))?;
    }
    if arguments.wants(Part::Many) {
        bench.page().write("many", &many.to_markdown(&absent))?;
        filled.extend(absent.iter().map(|line| format!("{line}\n")));
        bench.page().write("filling", &filled.join("\n"))?;
    }
    Ok(())
}
