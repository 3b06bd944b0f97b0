//! A figure: what was measured in each round, beside what was wanted.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Outcome;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Better {
    fn best(self, values: &[f64]) -> f64 {
        let pick = match self {
            Self::Higher => f64::max,
            Self::Lower => f64::min,
        };
        values.iter().copied().reduce(pick).unwrap_or(f64::NAN)
    }
}

/// What is wanted, and of what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// The value itself, at least.
    AtLeast(f64),
    /// The value itself, at most.
    AtMost(f64),
    /// The value itself, exactly.
    Exactly(f64),
    /// The value over the raw one, at least.
    RatioAtLeast(f64),
    /// The value over the raw one, at most.
    RatioAtMost(f64),
    /// It is there to be known.
    None,
}

impl Target {
    fn met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::AtLeast(wanted) => Some(value >= wanted),
            Self::AtMost(wanted) => Some(value <= wanted),
            Self::Exactly(wanted) => Some((value - wanted).abs() < 1e-9),
            Self::RatioAtLeast(wanted) => Some(ratio? >= wanted),
            Self::RatioAtMost(wanted) => Some(ratio? <= wanted),
            Self::None => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(wanted) => write!(f, "≥ {wanted}"),
            Self::AtMost(wanted) => write!(f, "≤ {wanted}"),
            Self::Exactly(wanted) => write!(f, "= {wanted}"),
            Self::RatioAtLeast(wanted) => write!(f, "≥ {wanted} × raw"),
            Self::RatioAtMost(wanted) => write!(f, "≤ {wanted} × raw"),
            Self::None => write!(f, "-"),
        }
    }
}

/// A figure and the rounds it was measured in.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    better: Better,
    target: Target,
    values: Vec<f64>,
    raws: Vec<f64>,
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Line<'a> {
    figure: &'a str,
    unit: &'a str,
    best: f64,
    median: f64,
    raw_best: Option<f64>,
    raw_median: Option<f64>,
    ratio_best: Option<f64>,
    ratio_median: Option<f64>,
    target: String,
    /// By the median.
    met: Option<bool>,
    met_best: Option<bool>,
    rounds: usize,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

impl Figure {
    pub(crate) fn new(
        name: impl Into<String>,
        unit: &'static str,
        better: Better,
        target: Target,
    ) -> Self {
        Self {
            name: name.into(),
            unit,
            better,
            target,
            values: Vec::new(),
            raws: Vec::new(),
            extra: Map::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn unit(&self) -> &'static str {
        self.unit
    }

    /// A round with nothing to set it against.
    pub(crate) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// A round and the raw measure taken in it.
    pub(crate) fn push_with_raw(&mut self, value: f64, raw: f64) {
        self.values.push(value);
        self.raws.push(raw);
    }

    /// Something else worth knowing.
    pub(crate) fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    /// A number that was noted.
    pub(crate) fn noted(&self, name: &str) -> Option<f64> {
        self.extra.get(name)?.as_f64()
    }

    /// What is wanted of the ratio, if something is: `≤ 0.33`.
    pub(crate) fn aim(&self) -> Option<String> {
        match self.target {
            Target::RatioAtLeast(wanted) => Some(format!("≥ {wanted}")),
            Target::RatioAtMost(wanted) => Some(format!("≤ {wanted}")),
            _ => None,
        }
    }

    /// The raw value in the middle.
    pub(crate) fn raw_median(&self) -> f64 {
        median(&self.raws)
    }

    /// The value in the middle.
    pub(crate) fn median(&self) -> f64 {
        median(&self.values)
    }

    /// Each round's value over its raw one.
    pub(crate) fn ratios(&self) -> Vec<f64> {
        self.values.iter().zip(&self.raws).map(|(value, raw)| value / raw).collect()
    }

    /// Each round's value over that of another figure in the same round.
    pub(crate) fn over(&self, other: &Self) -> Vec<f64> {
        self.values.iter().zip(&other.values).map(|(value, other)| value / other).collect()
    }

    fn line(&self) -> Line<'_> {
        let raw = |of: &dyn Fn(&[f64]) -> f64| (!self.raws.is_empty()).then(|| of(&self.raws));
        let (best, raw_best) =
            (self.better.best(&self.values), raw(&|raws| self.better.best(raws)));
        let ratios = self.ratios();
        let middle = self.median();
        let ratio_best = raw_best.map(|raw| best / raw);
        let ratio_median = raw(&|_| median(&ratios));
        Line {
            figure: &self.name,
            unit: self.unit,
            best: rounded(best),
            median: rounded(middle),
            raw_best: raw_best.map(rounded),
            raw_median: raw(&|raws| rounded(median(raws))),
            ratio_best: ratio_best.map(rounded),
            ratio_median: ratio_median.map(rounded),
            target: self.target.to_string(),
            met: self.target.met(middle, ratio_median),
            met_best: self.target.met(best, ratio_best),
            rounds: self.values.len(),
            extra: &self.extra,
        }
    }

    pub(crate) fn to_json(&self) -> Outcome<String> {
        Ok(serde_json::to_string(&self.line())?)
    }

    pub(crate) fn row(&self) -> Row {
        let line = self.line();
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let met = match (line.met, line.met_best) {
            (None, _) => "-",
            (Some(true), _) => "yes",
            (Some(false), Some(true)) => "at best",
            (Some(false), _) => "NO",
        };
        Row([
            line.figure.to_owned(),
            line.unit.to_owned(),
            line.best.to_string(),
            line.median.to_string(),
            shown(line.raw_median),
            shown(line.ratio_best),
            shown(line.ratio_median),
            line.target,
            met.to_owned(),
        ])
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row([String; 9]);

impl Row {
    pub(crate) fn heading() -> Self {
        Self(
            ["figure", "unit", "best", "median", "raw", "× best", "× median", "target", "met"]
                .map(str::to_owned),
        )
    }

    pub(crate) fn skipped(name: &str, reason: &str) -> Self {
        let mut row = Self(std::array::from_fn(|_| "-".to_owned()));
        let [figure, .., met] = &mut row.0;
        name.clone_into(figure);
        *met = format!("skipped: {reason}");
        row
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTHS: [usize; 9] = [34, 13, 9, 9, 9, 8, 9, 13, 0];
        for (cell, width) in self.0.iter().zip(WIDTHS) {
            write!(f, "{cell:width$} ")?;
        }
        Ok(())
    }
}

/// The one in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (Some(value), 1) => *value,
        (Some(value), _) => (sorted[middle - 1] + value) / 2.0,
        (None, _) => f64::NAN,
    }
}

/// Four digits that mean something.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return value.round();
    }
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_says_best_median_and_ratio() {
        let mut figure = Figure::new("f", "x/s", Better::Higher, Target::RatioAtLeast(0.9));
        for (value, raw) in [(1.0, 2.0), (3.0, 3.0), (2.0, 4.0)] {
            figure.push_with_raw(value, raw);
        }
        let line: Value = serde_json::from_str(&figure.to_json().unwrap()).unwrap();
        assert_eq!(line["best"], 3.0);
        assert_eq!(line["median"], 2.0);
        assert_eq!(line["raw_best"], 4.0);
        assert_eq!(line["ratio_best"], 0.75);
        assert_eq!(line["ratio_median"], 0.5);
        assert_eq!(line["met"], false);
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(rounded(123_456.7), 123_457.0);
        assert_eq!(rounded(0.000_123_456), 0.000_123_5);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
