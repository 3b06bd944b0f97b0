//! The table of the turns, as it stands in `docs/benchmarks.md`.

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::median;
use crate::machine::measured;
use crate::page::{short, table_row};
use crate::peers::entrant::Side;
use crate::peers::turns::Shown;

/// What is said about the turns.
pub(crate) fn turn_table(bench: &Bench, absent: &[String], shown: &[Shown]) -> Outcome<String> {
    let mut text = format!("{}\n\n", measured(bench)?);
    for line in absent {
        text.push_str(&format!("{line}\n\n"));
    }
    text.push_str(HEAD);
    let ours = shown.iter().find(|shown| shown.contestant.entrant.name == "abide");
    shown.iter().for_each(|shown| text.push_str(&row(shown, ours)));
    Ok(text)
}

const HEAD: &str = "\
| | in a turn | 100: ms (context) | × raw | × abide | 10,000: ms (context) | × raw | × abide | 100,000: ms (context) | × raw | × abide | 100,000 over 100 |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
";

fn row(shown: &Shown, ours: Option<&Shown>) -> String {
    let entrant = &shown.contestant.entrant;
    let version = shown.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
    let mut cells = vec![format!("{}{version}", entrant.title), shown.contestant.does.to_owned()];
    for (size, figure) in shown.turns.iter().enumerate() {
        let context = median(&shown.contexts[size]);
        cells.push(format!("{} ({})", short(figure.median()), short(context)));
        cells.push(short(median(&figure.ratios())));
        // In the same round.
        let against = ours.map(|ours| median(&figure.over(&ours.turns[size])));
        cells.push(match (entrant.side, against) {
            (Side::Theirs, Some(against)) => short(against),
            _ => "-".to_owned(),
        });
    }
    cells.push(short(shown.growth()));
    table_row(&cells)
}
