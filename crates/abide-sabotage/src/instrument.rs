//! Puts deliberate breaks into a source file, each behind a switch.
//!
//! The unit is the block: the innermost block of statements that holds the whole text to be replaced
//! is written a second time, with the replacement, and a switch chooses between the two. What is not
//! inside a block of a function cannot be switched at run time, nor can what the compiler evaluates: a
//! `const`, a `const fn`, an attribute, a type. A break of these is refused.
//!
//! A broken copy holds no other break, so that a file grows by one block for each break. It stands on
//! one line, so that the lines of the code as it is keep their numbers (but for the line breaks within
//! string literals of a broken copy).

use std::fmt::Write as _;
use std::ops::Range;

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::visit::{self, Visit};

use crate::list::{Edit, Fault};

/// The environment variable that switches a break on, by its name.
pub const SWITCH: &str = "ABIDE_BREAK";

/// The environment variable that names a directory for a break to make when its code is run.
pub const WITNESS: &str = "ABIDE_BREAK_WITNESS";

/// Gives the source with all breaks in it.
pub fn instrument(source: &str, edits: &[Edit]) -> Result<String, Fault> {
    let Some(first) = edits.first() else { return Ok(source.to_owned()) };
    let fault = |edit: &Edit, reason: String| Fault { name: edit.name.clone(), reason };
    let file = syn::parse_file(source)
        .map_err(|error| fault(first, format!("its file does not parse: {error}")))?;
    let mut found = Blocks::default();
    found.visit_file(&file);
    let blocks = found.switchable(source);

    let mut broken: Vec<(Range<usize>, String)> = Vec::new();
    for edit in edits {
        let at = place(source, edit)?;
        let holds = |block: &&Range<usize>| block.start <= at.start && at.end <= block.end;
        let block =
            blocks.iter().filter(holds).min_by_key(|block| block.len()).ok_or_else(|| {
                fault(
                    edit,
                    "its text is not inside a block that runs (see instrument.rs)".to_owned(),
                )
            })?;
        let copy = [&source[block.start..at.start], &edit.replace, &source[at.end..block.end]];
        let copy = one_line(&copy.concat())
            .map_err(|error| fault(edit, format!("the broken block does not parse: {error}")))?;
        let switched = format!(" if {} {{ {copy} }} else", switch(&edit.name));
        match broken.iter_mut().find(|(other, _)| other == block) {
            Some((_, before)) => before.push_str(&switched),
            None => broken.push((block.clone(), switched)),
        }
    }

    let mut insertions: Vec<(usize, String)> = Vec::new();
    for (block, switched) in broken {
        insertions.push((block.start, switched + " {"));
        insertions.push((block.end, "}".to_owned()));
    }
    insertions.sort_by_key(|(at, _)| *at);
    let (mut out, mut done) = (String::with_capacity(source.len() * 2), 0);
    for (at, text) in insertions {
        out.push_str(&source[done..at]);
        out.push_str(&text);
        done = at;
    }
    out.push_str(&source[done..]);
    Ok(out)
}

/// Where the text to be replaced is.
fn place(source: &str, edit: &Edit) -> Result<Range<usize>, Fault> {
    let mut places = source.match_indices(edit.find.as_str());
    match (edit.find.is_empty(), places.next(), places.next()) {
        (false, Some((at, found)), None) => Ok(at..at + found.len()),
        (_, first, _) => {
            let how = if first.is_none() { "does not stand" } else { "stands more than once" };
            let reason = format!("its text {how} in {}", edit.file.display());
            Err(Fault { name: edit.name.clone(), reason })
        }
    }
}

/// The contents of a block without line ends and comments, if they parse.
fn one_line(contents: &str) -> syn::Result<String> {
    let tokens: TokenStream = syn::parse_str(contents)?;
    let line = tokens.to_string();
    syn::Block::parse_within.parse2(tokens)?;
    Ok(line)
}

/// The expression that is true when a break is on. It names nothing of the crate it is put in.
fn switch(name: &str) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "{{ static BREAK: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new(); \
         *BREAK.get_or_init(|| {{ \
         let on = ::std::env::var_os({SWITCH:?}).is_some_and(|name| name == {name:?}); \
         if on && let ::std::option::Option::Some(dir) = ::std::env::var_os({WITNESS:?}) \
         {{ let _ = ::std::fs::create_dir(dir); }} \
         on }}) }}"
    );
    out
}

/// The blocks of a file, as byte ranges of what is between their braces.
#[derive(Default)]
struct Blocks {
    /// The blocks that run, and whether the compiler evaluates them.
    blocks: Vec<(Range<usize>, Evaluated)>,
    /// Inner attributes (`#![…]`), which must stay first in their block.
    attributes: Vec<Range<usize>>,
    now: Evaluated,
}

/// When code is evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Evaluated {
    #[default]
    AtRunTime,
    ByTheCompiler,
}

impl Blocks {
    /// The blocks that can have a switch.
    fn switchable(self, source: &str) -> Vec<Range<usize>> {
        let Self { blocks, attributes, .. } = self;
        let at_run_time = |(_, evaluated): &(_, _)| *evaluated == Evaluated::AtRunTime;
        let mut blocks: Vec<_> = blocks.into_iter().filter(at_run_time).map(|one| one.0).collect();
        for attribute in attributes {
            let holds = |block: &&mut Range<usize>| {
                block.start <= attribute.start && attribute.end <= block.end
            };
            let block = blocks.iter_mut().filter(holds).min_by_key(|block| block.len());
            // One of a module within the block is not the block's own.
            if let Some(block) = block
                && !source[block.start..attribute.start].contains('{')
            {
                block.start = attribute.end;
            }
        }
        blocks
    }

    fn within(&mut self, evaluated: Evaluated, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.now, evaluated);
        visit(self);
        self.now = before;
    }

    fn function(&mut self, signature: &syn::Signature, visit: impl FnOnce(&mut Self)) {
        let constant = signature.constness.is_some();
        let when = if constant { Evaluated::ByTheCompiler } else { Evaluated::AtRunTime };
        self.within(when, visit);
    }
}

impl<'ast> Visit<'ast> for Blocks {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        let (open, close) = (block.brace_token.span.open(), block.brace_token.span.close());
        self.blocks.push((open.byte_range().end..close.byte_range().start, self.now));
        visit::visit_block(self, block);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if matches!(attribute.style, syn::AttrStyle::Inner(_)) {
            let close = attribute.bracket_token.span.close().byte_range();
            self.attributes.push(attribute.pound_token.spans[0].byte_range().start..close.end);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_item_static(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_impl_item_const(this, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_trait_item_const(this, item));
    }

    fn visit_expr_const(&mut self, expression: &'ast syn::ExprConst) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_expr_const(this, expression));
    }

    // Whatever makes the closure, nothing but running it evaluates its body.
    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.within(Evaluated::AtRunTime, |this| visit::visit_expr_closure(this, closure));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_type_array(this, array));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.within(Evaluated::ByTheCompiler, |this| this.visit_expr(&repeat.len));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.within(Evaluated::ByTheCompiler, |this| {
            visit::visit_generic_argument(this, argument);
        });
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.within(Evaluated::ByTheCompiler, |this| visit::visit_variant(this, variant));
    }
}

#[cfg(test)]
mod tests;
