//! Looks up listed names among the remembered ones. They come in the same order as long as the
//! directory is unchanged, so the next row is nearly always the right one.

use std::collections::HashMap;
use std::ffi::CStr;

use crate::take::directory_record::{RecordRow, RecordRows};

pub(crate) struct RowLookup<'a> {
    /// The rows after the last match.
    next: Option<RecordRows<'a>>,
    all: Option<RecordRows<'a>>,
    /// For each name, the rows from it on. Built when the order does not match.
    by_name: Option<HashMap<&'a CStr, RecordRows<'a>>>,
}

impl<'a> RowLookup<'a> {
    pub(crate) fn new(rows: Option<RecordRows<'a>>) -> Self {
        Self { next: rows, all: rows, by_name: None }
    }

    pub(crate) fn find(&mut self, name: &CStr) -> Option<RecordRow<'a>> {
        let mut ahead = self.next?;
        if let Some(row) = ahead.next().filter(|row| row.name == name) {
            self.next = Some(ahead);
            return Some(row);
        }
        let all = self.all?;
        let by_name = self.by_name.get_or_insert_with(|| index_for_lookup(all));
        let mut found = *by_name.get(name)?;
        let row = found.next();
        self.next = Some(found);
        row
    }
}

fn index_for_lookup<'a>(mut rows: RecordRows<'a>) -> HashMap<&'a CStr, RecordRows<'a>> {
    let mut index = HashMap::new();
    loop {
        let here = rows;
        match rows.next() {
            Some(row) => index.insert(row.name, here),
            None => return index,
        };
    }
}
