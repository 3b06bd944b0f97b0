//! Turns of the conversation, and the API's rules about whole turns.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use abide_model::json::{RawJsonFields, list};
use abide_model::message::Speaker;

/// The blocks of one side until the other speaks.
#[derive(Debug)]
pub(super) struct AnthropicTurn {
    pub(super) role: Speaker,
    pub(super) blocks: Vec<TurnBlock>,
}

/// A block of a turn.
#[derive(Debug)]
pub(super) struct TurnBlock {
    text: String,
    sort: TurnBlockKind,
}

#[derive(Debug, PartialEq, Eq)]
enum TurnBlockKind {
    Plain,
    /// Reasoning.
    Thought,
    /// A use of a tool that the API runs itself, by its id, and its result.
    Use(String),
    Result(String),
    /// A call made by such a tool, by the id of that tool's use.
    UsedBy(String),
}

impl TurnBlock {
    pub(super) const fn plain(text: String) -> Self {
        Self { text, sort: TurnBlockKind::Plain }
    }

    pub(super) const fn thought(text: String) -> Self {
        Self { text, sort: TurnBlockKind::Thought }
    }

    /// A block of the model that may be linked to another.
    pub(super) fn other(text: String) -> Self {
        let sort = Self::bond(&text).unwrap_or(TurnBlockKind::Plain);
        Self { text, sort }
    }

    fn bond(text: &str) -> Option<TurnBlockKind> {
        let fields = RawJsonFields::of(text)?;
        let sort = fields.decoded("type")?;
        let name = |name: &str| fields.decoded(name).unwrap_or_default().into_owned();
        match &*sort {
            "tool_use" => {
                let caller = RawJsonFields::of(fields.get("caller")?.get())?;
                Some(TurnBlockKind::UsedBy(caller.decoded("tool_id")?.into_owned()))
            }
            sort if sort.ends_with("_tool_use") => Some(TurnBlockKind::Use(name("id"))),
            sort if sort.ends_with("_tool_result") => {
                Some(TurnBlockKind::Result(name("tool_use_id")))
            }
            _ => None,
        }
    }

    pub(super) const fn text(&mut self) -> &mut String {
        &mut self.text
    }
}

impl AnthropicTurn {
    /// Drops trailing reasoning: the API rejects a turn that ends with it.
    pub(super) fn drop_thoughts(&mut self) {
        while self.blocks.pop_if(|block| block.sort == TurnBlockKind::Thought).is_some() {}
    }

    pub(super) fn message(&self) -> String {
        let role = if self.role == Speaker::Assistant { "assistant" } else { "user" };
        let blocks: Vec<_> = self.blocks.iter().map(|block| block.text.as_str()).collect();
        format!("{{\"role\":\"{role}\",\"content\":[{}]}}", blocks.join(","))
    }
}

/// Drops uses of the API's own tools without a later result, and results without an earlier use:
/// the answer was cut off, or part of it is gone. The result may be in a later turn if the tool
/// itself makes calls.
pub(super) fn keep_pairs(turns: &mut [AnthropicTurn]) {
    let (mut seen, mut kept) = (HashSet::new(), HashSet::new());
    let mut open = HashMap::new();
    for (number, turn) in turns.iter().enumerate() {
        for (place, block) in turn.blocks.iter().enumerate() {
            let at = (number, place);
            match &block.sort {
                TurnBlockKind::Use(id) if seen.insert(id.as_str()) => {
                    open.insert(id.as_str(), at);
                }
                TurnBlockKind::Result(id) => {
                    if let Some(used) = open.remove(id.as_str()) {
                        kept.extend([used, at]);
                    }
                }
                TurnBlockKind::UsedBy(id) => kept.extend(open.get(id.as_str())),
                _ => {}
            }
        }
    }
    for (number, turn) in turns.iter_mut().enumerate() {
        let mut place = 0;
        turn.blocks.retain(|block| {
            let paired = kept.contains(&(number, place));
            place += 1;
            paired || !matches!(block.sort, TurnBlockKind::Use(_) | TurnBlockKind::Result(_))
        });
    }
}

/// Drops trailing reasoning and empty turns, then joins consecutive turns of one role.
pub(super) fn join(turns: &mut Vec<AnthropicTurn>) {
    let mut joined: Vec<AnthropicTurn> = Vec::with_capacity(turns.len());
    for mut turn in turns.drain(..) {
        turn.drop_thoughts();
        match joined.last_mut().filter(|last| last.role == turn.role) {
            Some(last) => last.blocks.append(&mut turn.blocks),
            None if turn.blocks.is_empty() => {}
            None => joined.push(turn),
        }
    }
    *turns = joined;
}

/// How many blocks the API allows with a cache mark.
const MARKS: usize = 4;
const MARK: &str = "cache_control";

/// Keeps the last cache marks, as many as the API allows: they help to continue from the end of the
/// conversation.
pub(super) fn keep_marks<'t>(blocks: impl DoubleEndedIterator<Item = &'t mut String>) {
    let mut left = MARKS;
    for block in blocks.rev() {
        if let Some(without) = unmarked(block, &mut left) {
            *block = without;
        }
    }
}

/// The block with at most `left` marks; `None` if it is unchanged.
fn unmarked(block: &str, left: &mut usize) -> Option<String> {
    // Most blocks have none. An escape could hide the name.
    if !block.contains(MARK) && !block.contains("\\u") {
        return None;
    }
    let fields = RawJsonFields::of(block)?;
    let marked = fields.get(MARK).is_some();
    let over = marked && *left == 0;
    *left -= usize::from(marked && !over);
    let inner = fields.get("content").and_then(list).unwrap_or_default();
    let mut inner: Vec<_> = inner.into_iter().map(|raw| Cow::Borrowed(raw.get())).collect();
    let mut nested = false;
    for one in inner.iter_mut().rev() {
        if let Some(without) = unmarked(one, left) {
            *one = Cow::Owned(without);
            nested = true;
        }
    }
    let content = format!("[{}]", inner.join(","));
    (over || nested).then(|| {
        fields.rewritten(|name, raw| match name {
            MARK if over => None,
            "content" if nested => Some(Cow::Borrowed(content.as_str())),
            _ => Some(Cow::Borrowed(raw)),
        })
    })
}
