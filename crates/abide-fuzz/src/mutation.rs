//! Mutations of a corpus: pure, and the same for the same seed.
//!
//! There is no coverage to be guided by. Instead the mutations know what the inputs are made of:
//! bytes, little-endian integers, decimal numbers, lines, JSON values and words, and parts between
//! [`CUT`]s. Most of them change one thing and leave the rest readable.

use std::ops::Range;

use abide_testkit::Random;

use crate::input::{CUT, parts};

/// The longest input that is made.
const MAX_LEN: usize = 1 << 14;

const BYTES: &[u8] = b"\x00\x01\x7f\x80\xff\n\r\t \"\\{}[],:09-#%`e.";

/// What paths, lines and texts stumble over.
const WORDS: &[&[u8]] =
    &[b"..", b"../", b"/", b"\0\0", b"\r\n", b"\r", b"\n\n", b"\xef\xbb\xbf", b"\xed\xa0\x80"];

/// Numbers at the limits of what decoders hold them in.
const NUMBERS: &str = "0 1 -1 00 0.5 1e400 4294967296 9223372036854775807 18446744073709551616";

/// What may stand where a JSON value stands.
const VALUES: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\\n\"",
    "\"\u{2028}é😀\"",
    "{\"\":null}",
    "[[[[[[[[]]]]]]]]",
    "\"{\\\"a\\\":1}\"",
    "\\",
];

/// Makes inputs out of those of a corpus.
#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    controls: usize,
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Mutates these inputs, of which the first `controls` bytes are no content.
    #[must_use]
    pub const fn new(corpus: &'a [Vec<u8>], controls: usize, seed: u64) -> Self {
        Self { corpus, controls, random: Random::new(seed) }
    }

    /// The next input.
    pub fn mutate(&mut self) -> Vec<u8> {
        let base = self.base();
        let (controls, content) = base.split_at(self.controls.min(base.len()));
        let (mut controls, mut content) = (controls.to_vec(), content.to_vec());
        let is_text = std::str::from_utf8(&content).is_ok();
        if !controls.is_empty() && self.random.once_in(8) {
            let at = self.random.index(controls.len());
            controls[at] = self.random.number() as u8;
        }
        // One change in half of the inputs, two in a quarter, and so on.
        for _ in 0..=self.random.number().trailing_ones().min(7) {
            self.change(&mut content, is_text);
        }
        // A decoder of text refuses other bytes at once: few inputs are for that.
        if is_text && std::str::from_utf8(&content).is_err() && !self.random.once_in(8) {
            content = String::from_utf8_lossy(&content).into_owned().into_bytes();
        }
        content.truncate(MAX_LEN);
        controls.append(&mut content);
        controls
    }

    fn base(&mut self) -> &'a [u8] {
        self.corpus.get(self.random.index(self.corpus.len())).map_or(&[], Vec::as_slice)
    }

    /// The content of another input, or of the same.
    fn other(&mut self) -> &'a [u8] {
        let base = self.base();
        base.get(self.controls..).unwrap_or_default()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.index(from.len())]
    }

    /// A range within `len` bytes: short ones more often than long ones.
    fn range(&mut self, len: usize) -> Range<usize> {
        let most = 1 << self.random.below(1 + u64::from(len.max(1).ilog2()));
        let start = self.random.index(len);
        start..(start + 1 + self.random.index(most)).min(len)
    }

    /// A place in `len` bytes: its beginning and its end, where heads and tables are, more often.
    fn place(&mut self, len: usize) -> usize {
        match self.random.below(4) {
            0 => self.random.index(len.min(64)),
            1 => len.saturating_sub(1 + self.random.index(len.min(128))),
            _ => self.random.index(len),
        }
    }

    fn change(&mut self, data: &mut Vec<u8>, is_text: bool) {
        match self.random.below(18) {
            0 => self.byte(data),
            1..=3 if !is_text => self.integer(data),
            4 if !is_text => self.resize(data),
            5 => self.insert(data),
            6 | 7 => self.bytes(data),
            8 => self.splice(data),
            9 | 10 => self.number(data),
            11 | 12 => self.lines(data),
            13 => self.part(data),
            _ => self.value(data),
        }
    }

    /// Flips a bit, sets a byte, or writes a word over what is there.
    fn byte(&mut self, data: &mut [u8]) {
        let at = self.place(data.len());
        let Some(rest) = data.get_mut(at..).filter(|rest| !rest.is_empty()) else { return };
        match self.random.below(3) {
            0 => rest[0] ^= 1 << self.random.below(8),
            1 => rest[0] = self.pick(BYTES),
            _ => rest.iter_mut().zip(self.pick(WORDS)).for_each(|(to, from)| *to = *from),
        }
    }

    /// Where an integer of one to eight bytes stands, and what it is: rather a small one, which may
    /// be a count or a length.
    fn find_integer(&mut self, data: &[u8]) -> Option<(Range<usize>, u64)> {
        let width = 1 << self.random.below(4);
        let mut found = None;
        for _ in 0..16 {
            let at = self.place((data.len() + 1).saturating_sub(width));
            let field = data.get(at..at + width)?;
            let value = field.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            found = Some((at..at + width, value));
            if (1..1 << 20).contains(&value) {
                break;
            }
        }
        found
    }

    /// Changes an integer: by little, to a limit, or to a length.
    fn integer(&mut self, data: &mut [u8]) {
        let Some((field, old)) = self.find_integer(data) else { return };
        let (len, at) = (data.len() as u64, field.start as u64);
        let new = match self.random.below(6) {
            0 => old.wrapping_add(1 + self.random.below(40)),
            1 => old.wrapping_sub(1 + self.random.below(40)),
            2 => self.pick(&[len, len - 1, len + 1, at, len - at]),
            3 => u64::MAX - self.random.below(3),
            // A power of two, or one less.
            _ => (1 << self.random.below(64)) - self.random.below(2),
        };
        let width = field.len();
        data[field].copy_from_slice(&new.to_le_bytes()[..width]);
    }

    /// Makes what a length stands before longer or shorter, and the length with it.
    fn resize(&mut self, data: &mut Vec<u8>) {
        let Some((field, length)) = self.find_integer(data) else { return };
        let end = usize::try_from(length).ok().and_then(|length| field.end.checked_add(length));
        let Some(end) = end.filter(|end| *end <= data.len()) else { return };
        let at = field.end + self.random.index(end - field.end + 1);
        let more = self.pick(&[0, 0, 1, 8, 300]);
        let fewer = if more == 0 { self.random.index(end - at + 1) } else { 0 };
        let new = vec![self.pick(BYTES); more];
        data.splice(at..at + fewer, new);
        let (length, width) = (length + more as u64 - fewer as u64, field.len());
        data[field].copy_from_slice(&length.to_le_bytes()[..width]);
    }

    /// Inserts a byte over and over, or any bytes; at times very many.
    fn insert(&mut self, data: &mut Vec<u8>) {
        let most = self.pick(&[1, 4, 16, 64, 300, 5000]);
        let mut new = vec![self.pick(BYTES); 1 + self.random.index(most)];
        if self.random.once_in(3) {
            self.random.fill(&mut new);
        }
        let at = self.random.index(data.len() + 1);
        data.splice(at..at, new);
    }

    /// Removes, copies, repeats or swaps bytes, or cuts them off.
    fn bytes(&mut self, data: &mut Vec<u8>) {
        let (from, to) = (self.range(data.len()), self.range(data.len()));
        let copied = data[from.clone()].to_vec();
        match self.random.below(6) {
            0 => drop(data.drain(from)),
            1 => drop(data.splice(to.start..to.start, copied)),
            2 => drop(data.splice(to, copied)),
            3 => swap(data, from, to),
            4 => data.truncate(from.start),
            _ => drop(data.drain(..from.start)),
        }
    }

    /// Goes on with the end of another input, or takes bytes from it.
    fn splice(&mut self, data: &mut Vec<u8>) {
        let other = self.other();
        let (from, to) = (self.range(other.len()), self.range(data.len()));
        match self.random.below(3) {
            0 => drop(data.splice(to.start.., other[from.start..].iter().copied())),
            1 if to.start < other.len() => {
                drop(data.splice(to.start.., other[to.start..].iter().copied()));
            }
            _ => drop(data.splice(to, other[from].iter().copied())),
        }
    }

    /// Changes a number in digits: by one, to a limit, or to others of as many digits.
    fn number(&mut self, data: &mut Vec<u8>) {
        let is_hex = self.random.once_in(3);
        let mut numbers =
            runs(data, if is_hex { u8::is_ascii_hexdigit } else { u8::is_ascii_digit });
        // Seldom those within times and names; no short words that look like one.
        let is_loose = self.random.once_in(4);
        numbers.retain(|at| {
            let before = at.start.checked_sub(1).and_then(|before| data.get(before));
            let mut around = [before, data.get(at.end)].into_iter().flatten();
            (is_loose || !around.any(|byte| is_word(*byte))) && (!is_hex || at.len() >= 8)
        });
        if numbers.is_empty() {
            return self.value(data);
        }
        let at = self.pick_range(&numbers);
        let text = String::from_utf8_lossy(&data[at.clone()]).into_owned();
        let (radix, width) = (if is_hex { 16 } else { 10 }, text.len());
        let old = u64::from_str_radix(&text, radix).unwrap_or(u64::MAX);
        let value = match self.random.below(4) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => self.random.below(old.saturating_mul(2)),
            _ => u64::MAX - self.random.below(2),
        };
        let new = match self.random.below(6) {
            _ if is_hex => format!("{value:0width$x}"),
            0 => self.pick(&["0", "9"]).repeat(width),
            1 => self.other().len().to_string(),
            2 | 3 => self.pick(&NUMBERS.split(' ').collect::<Vec<_>>()).to_owned(),
            _ => format!("{value:0width$}"),
        };
        data.splice(at, new.into_bytes());
    }

    /// Removes, repeats, swaps or joins lines, or takes one from another input.
    fn lines(&mut self, data: &mut Vec<u8>) {
        let lines = runs(data, |byte| *byte != b'\n');
        let other = self.other();
        let others = runs(other, |byte| *byte != b'\n');
        if lines.len() < 2 || others.is_empty() {
            return self.value(data);
        }
        let (one, two) = (self.pick_range(&lines), self.pick_range(&lines));
        let feed = |line: &[u8]| [line, b"\n"].concat();
        let copied = feed(&data[one.clone()]);
        match self.random.below(6) {
            0 => drop(data.drain(one.start..(one.end + 1).min(data.len()))),
            1 => drop(data.splice(two.start..two.start, copied)),
            2 => swap(data, one, two),
            3 => drop(data.splice(one.end..(one.end + 1).min(data.len()), [])),
            4 => {
                let line = feed(&other[self.pick_range(&others)]);
                data.splice(two.start..two.start, line);
            }
            _ => {
                // Up to four lines with what stands between them, many times.
                let first = self.random.index(lines.len());
                let behind = lines.get(first + 1 + self.random.index(4));
                let end = behind.map_or(data.len(), |line| line.start);
                let copied = data[lines[first].start..end].repeat(1 + self.random.index(40));
                data.splice(end..end, copied);
            }
        }
    }

    /// Removes, repeats, swaps or empties a part, or takes one from another input.
    fn part(&mut self, data: &mut Vec<u8>) {
        let mut all: Vec<Vec<u8>> = parts(data).into_iter().map(<[u8]>::to_vec).collect();
        if all.len() < 2 {
            return self.value(data);
        }
        let (one, two) = (self.random.index(all.len()), self.random.index(all.len()));
        match self.random.below(5) {
            0 => drop(all.remove(one)),
            1 => all.insert(two, all[one].clone()),
            2 => all.swap(one, two),
            3 => all[one].clear(),
            _ => {
                let others = parts(self.other());
                all[one] = self.pick(&others).to_vec();
            }
        }
        *data = all.join(CUT);
    }

    /// Replaces, removes, repeats or swaps JSON values and words.
    fn value(&mut self, data: &mut Vec<u8>) {
        let values = values(data);
        let other = if self.random.once_in(2) { self.other() } else { &data.clone() };
        let others = self::values(other);
        if values.is_empty() || others.is_empty() {
            return self.bytes(data);
        }
        let (one, two) = (self.pick_range(&values), self.pick_range(&values));
        let copied = data[one.clone()].to_vec();
        let comma = usize::from(data.get(one.end) == Some(&b','));
        match self.random.below(8) {
            0 => drop(data.drain(one.start..one.end + comma)),
            1 => drop(data.splice(one.end..one.end, [b",", copied.as_slice()].concat())),
            2 => swap(data, one, two),
            3 => drop(data.splice(one, self.pick(VALUES).bytes())),
            4 => {
                let (open, close) = self.pick(&[("[", "]"), ("{\"a\":", "}"), ("\"", "\"")]);
                let depth = self.pick(&[1, 1, 2, 130, 1000]);
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                data.splice(one, [open.as_bytes(), &copied, close.as_bytes()].concat());
            }
            _ => {
                // Of the same kind where there is one.
                let alike = |at: &&Range<usize>| kind(other[at.start]) == kind(copied[0]);
                let same: Vec<_> = others.iter().filter(alike).cloned().collect();
                let from = if same.is_empty() { &others } else { &same };
                data.splice(one, other[self.pick_range(from)].iter().copied());
            }
        }
    }

    fn pick_range(&mut self, from: &[Range<usize>]) -> Range<usize> {
        from[self.random.index(from.len())].clone()
    }
}

/// Swaps two ranges that do not overlap.
fn swap(data: &mut Vec<u8>, one: Range<usize>, two: Range<usize>) {
    let (first, second) = if one.start <= two.start { (one, two) } else { (two, one) };
    if first.end <= second.start {
        let moved = data[second.clone()].to_vec();
        let back: Vec<u8> = data.splice(first.clone(), moved).collect();
        let end = second.end - first.len() + second.len();
        data.splice(end - second.len()..end, back);
    }
}

/// Where bytes that are alike stand one after the other.
fn runs(data: &[u8], is_one: impl Fn(&u8) -> bool) -> Vec<Range<usize>> {
    let mut at = 0;
    let mut found = Vec::new();
    for run in data.chunk_by(|one, two| is_one(one) == is_one(two)) {
        if is_one(&run[0]) {
            found.push(at..at + run.len());
        }
        at += run.len();
    }
    found
}

/// Strings, words, numbers, and what stands in brackets with them. Not all of a file needs to be
/// JSON.
fn values(data: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = data.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                while let Some(byte) = data.get(at).filter(|byte| !b"\"\n".contains(byte)) {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(data.len());
                found.push(start..at);
            }
            b'{' | b'[' => open.push(start),
            b'}' | b']' => found.extend(open.pop().map(|start| start..at)),
            byte if is_word(*byte) => {
                at += data[at..].iter().take_while(|byte| is_word(**byte)).count();
                found.push(start..at);
            }
            _ => {}
        }
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte)
}

/// What a value is, by its first byte.
fn kind(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' | b'-' => b'0',
        byte if byte.is_ascii_alphabetic() => b'a',
        byte => byte,
    }
}
