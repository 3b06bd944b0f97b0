//! Finding the names of a listing among those remembered. They come in the same order while the
//! directory is the same, so that the next one is nearly always the one that is looked for.

use std::collections::HashMap;
use std::ffi::CStr;

use crate::record::{Row, Rows};

pub(crate) struct Lookup<'a> {
    /// What comes after the one that was found last.
    next: Option<Rows<'a>>,
    all: Option<Rows<'a>>,
    /// What comes from each name on, made when the order fails.
    by_name: Option<HashMap<&'a CStr, Rows<'a>>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(rows: Option<Rows<'a>>) -> Self {
        Self { next: rows, all: rows, by_name: None }
    }

    pub(crate) fn find(&mut self, name: &CStr) -> Option<Row<'a>> {
        let mut ahead = self.next?;
        if let Some(row) = ahead.next().filter(|row| row.name == name) {
            self.next = Some(ahead);
            return Some(row);
        }
        let all = self.all?;
        let by_name = self.by_name.get_or_insert_with(|| index(all));
        let mut found = *by_name.get(name)?;
        let row = found.next();
        self.next = Some(found);
        row
    }
}

fn index<'a>(mut rows: Rows<'a>) -> HashMap<&'a CStr, Rows<'a>> {
    let mut index = HashMap::new();
    loop {
        let here = rows;
        match rows.next() {
            Some(row) => index.insert(row.name, here),
            None => return index,
        };
    }
}
