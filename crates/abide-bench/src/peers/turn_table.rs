//! The table of the turns, as it stands in `docs/benchmarks.md`.

use std::fmt::Write;
use std::path::Path;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::median;
use crate::peers::entrant::Side;
use crate::peers::machine;
use crate::peers::table::{between_marks, short};
use crate::peers::turns::Shown;

const BEGIN: &str = "<!-- made by scripts/bench-peers, turns: begin -->";
const END: &str = "<!-- made by scripts/bench-peers, turns: end -->";

/// What is said about the turns.
#[derive(Debug)]
pub(crate) struct TurnTable(String);

impl TurnTable {
    pub(crate) fn new(bench: &Bench, absent: Vec<String>, shown: &[Shown]) -> Outcome<Self> {
        let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
        let mut text =
            format!("Measured {day}: {} rounds, {} cores.\n\n", bench.rounds, machine::cores()?);
        absent.iter().for_each(|line| {
            let _ = writeln!(text, "{line}\n");
        });
        text.push_str(HEAD);
        let ours = shown.iter().find(|shown| shown.contestant.entrant.name == "abide");
        shown.iter().for_each(|shown| text.push_str(&row(shown, ours)));
        Ok(Self(text.trim_end().to_owned()))
    }

    pub(crate) fn to_markdown(&self) -> &str {
        &self.0
    }

    pub(crate) fn write_into(&self, page: &Path) -> Outcome {
        between_marks(page, [BEGIN, END], &self.0)
    }
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
    format!("| {} |\n", cells.join(" | "))
}
