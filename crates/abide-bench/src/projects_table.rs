//! The table of one store of many projects.

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::Figure;
use crate::machine::measured;
use crate::page::{NOTHING, ratio_cell, raw_cell, short, table_head, table_row, value_cell};
use crate::projects::{AFTER, AFTER_RAW, ALL_PROJECTS};

const TITLES: [&str; 4] = ["figure", "ms", "one project alone, ms", "×"];

pub(crate) fn projects_table(bench: &Bench, projects: usize, each: usize) -> Outcome<String> {
    let (heading, sessions) = (measured(bench)?, projects * each);
    let [count, projects, each] = [sessions, projects, each].map(|count| short(count as f64));
    let mut text = format!("{heading} {count} sessions: {projects} projects with {each} each.\n\n");
    text.push_str(&table_head(&TITLES, 1));
    let figure = |name: &str| bench.figure(&format!("projects.{sessions}.{name}"));
    let whole = |title: &str, figure: &Option<Figure>| {
        let figure = figure.as_ref();
        table_row(&[title.to_owned(), value_cell(figure), raw_cell(figure), ratio_cell(figure)])
    };
    let noted = |title: &str, figure: &Option<Figure>, [value, raw]: [&str; 2]| {
        let noted = |name: &str| figure.as_ref().and_then(|figure| figure.noted(name));
        let cell = |value: Option<f64>| value.map_or_else(|| NOTHING.to_owned(), short);
        let ratio = noted(value).zip(noted(raw)).map(|(value, raw)| value / raw);
        table_row(&[title.to_owned(), cell(noted(value)), cell(noted(raw)), cell(ratio)])
    };
    let [history, started] = [figure("history"), figure("history.start")];
    text.push_str(&whole("`history`", &history));
    text.push_str(&noted("`history` of all projects", &history, [ALL_PROJECTS, ""]));
    for name in ["latest", "latest_in", "search.p50", "record", "record.start"] {
        text.push_str(&whole(&format!("`{name}`"), &figure(name)));
    }
    text.push_str(&whole("`history.start`", &started));
    let after = "`history.start`, the first after sessions were made";
    text.push_str(&noted(after, &started, [AFTER, AFTER_RAW]));
    text.push_str(&whole("`status.start`, of all projects", &figure("status.start")));
    text.push_str(&whole("`show.start`", &figure("show.start")));
    Ok(text)
}
