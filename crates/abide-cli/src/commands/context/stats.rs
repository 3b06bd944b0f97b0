//! The size of a context, and the usage of the session.

use abide::{SessionState, context::SessionContext, event::Usage};
use abide_transcript::escape;
use serde_json::{Value, json};

use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::noun_count::noun_count;

/// How many turns are shown, the newest.
const TURNS: usize = 10;

/// Prints the statistics.
pub(super) fn tell_context_stats(
    context: &SessionContext,
    state: &SessionState,
    as_json: bool,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let tokens = context.tokens();
    let window = context.core.window;
    if as_json {
        let (lanes, models) =
            (tell_stats_used_by(state, "lane:"), tell_stats_used_by(state, "model:"));
        let object = |used: Vec<(String, Usage)>| -> Value {
            used.into_iter().map(|(name, usage)| (name, json!(usage))).collect()
        };
        let turns: Value = turns_with_usage(state)
            .into_iter()
            .map(|(turn, usage)| (turn.to_string(), json!(usage)))
            .collect();
        let figures = json!({
            "messages": context.len(),
            "tokens": {
                "total": tokens.total(), "how": tokens.how(), "reported": tokens.reported,
                "counted": tokens.counted, "estimated": tokens.estimated,
            },
            "window": window,
            "share": window.filter(|window| *window > 0).map(|window| share_of_window(tokens.total(), window)),
            "model": context.model(),
            "configured": context.core.model.as_ref().map(|(_, seq)| seq),
            "pending": context.pending.iter().map(|call| json!({
                "call": call.call, "name": call.name, "begun": call.begun,
            })).collect::<Vec<_>>(),
            "compactions": context.core.compactions,
            "pinned": context.lane.pins,
            "usage": {"session": context.core.usage, "lanes": object(lanes), "models": object(models), "turns": turns},
            "limits": context.core.limits,
        });
        return out.json(&figures.to_string());
    }
    let total = tokens.total();
    let model = context.model().unwrap_or("unknown");
    out.line(format_args!("Model     {}", escape::text(model)))?;
    out.line(format_args!("Messages  {}", context.len()))?;
    let known = [
        (tokens.reported, "reported"),
        (tokens.counted, "counted"),
        (tokens.estimated, "estimated"),
    ];
    let known: Vec<String> = known
        .iter()
        .filter(|(tokens, _)| *tokens > 0)
        .map(
            |(tokens, how)| {
                if *tokens == total { (*how).to_owned() } else { format!("{tokens} {how}") }
            },
        )
        .collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    out.line(format_args!("Tokens    {total}{known}"))?;
    match window.filter(|window| *window > 0) {
        Some(window) => {
            let share = share_of_window(total, window) * 100.0;
            out.line(format_args!("Window    {window}, {share:.0}% of it in use"))?;
        }
        None => out.line("Window    unknown: record `model.configured` with its window")?,
    }
    out.line(format_args!("Compacted {}", noun_count(context.core.compactions, "time")))?;
    if !context.lane.pins.is_empty() {
        let pins: Vec<String> = context.lane.pins.iter().map(|seq| format!("@{seq}")).collect();
        out.line(format_args!("Pinned    {}", pins.join(" ")))?;
    }
    for call in &context.pending {
        let begun = if call.begun { "started, outcome unknown" } else { "not started" };
        let (name, id) = (escape::text(&call.name), escape::text(call.call.as_str()));
        out.line(format_args!("Pending   {name} {id}: {begun}"))?;
    }
    print_usage_stats("session", &context.core.usage, out)?;
    for (name, usage) in tell_stats_used_by(state, "model:") {
        print_usage_stats(&format!("model {}", escape::text(&name)), &usage, out)?;
    }
    for (name, usage) in
        tell_stats_used_by(state, "lane:").iter().filter(|(name, _)| !name.is_empty())
    {
        print_usage_stats(&format!("lane {}", escape::text(name)), usage, out)?;
    }
    let turns = turns_with_usage(state);
    let passed = turns.len().saturating_sub(TURNS);
    if passed > 0 {
        out.line(format_args!("Used      … {passed} earlier turns; --json has all"))?;
    }
    for (turn, usage) in turns.into_iter().skip(passed) {
        print_usage_stats(&format!("turn {turn}"), &usage, out)?;
    }
    for (name, limit) in &context.core.limits {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |n| n.to_string());
        let resets = limit.resets.map(|at| format!(", full again at {at}")).unwrap_or_default();
        let (left, all) = (number(limit.remaining), number(limit.limit));
        out.line(format_args!("Limit     {}: {left} of {all} left{resets}", escape::text(name)))?;
    }
    Ok(())
}

/// The share of the window in use, as a fraction.
#[allow(clippy::cast_precision_loss)]
fn share_of_window(tokens: u64, window: u64) -> f64 {
    tokens as f64 / window as f64
}

/// The usage by lane or model; the main lane has no name.
fn tell_stats_used_by(state: &SessionState, prefix: &str) -> Vec<(String, Usage)> {
    let named = |(key, usage): (&str, &Usage)| {
        key.strip_prefix(prefix).map(|name| (name.to_owned(), usage.clone()))
    };
    let mut used: Vec<_> = state.usage.iter().filter_map(named).collect();
    used.sort_by(|a, b| a.0.cmp(&b.0));
    used
}

/// The turns with usage, in order.
fn turns_with_usage(state: &SessionState) -> Vec<(u64, Usage)> {
    let mut turns: Vec<(u64, Usage)> = state
        .turns
        .iter()
        .filter(|(_, turn)| turn.usage != Usage::default())
        .filter_map(|(number, turn)| Some((number.parse().ok()?, turn.usage.clone())))
        .collect();
    turns.sort_by_key(|(number, _)| *number);
    turns
}

#[allow(clippy::cast_precision_loss)]
fn print_usage_stats(by: &str, usage: &Usage, out: &mut CommandOutput) -> Result<(), CommandError> {
    let cost = if usage.cost_micros > 0 {
        format!(", ${:.4}", usage.cost_micros as f64 / 1e6)
    } else {
        String::new()
    };
    let cached = if usage.cache_read_tokens > 0 {
        format!(" ({} from the cache)", usage.cache_read_tokens)
    } else {
        String::new()
    };
    out.line(format_args!(
        "Used      {by}: {} tokens in{cached}, {} out{cost}",
        usage.input_tokens, usage.output_tokens
    ))
}
