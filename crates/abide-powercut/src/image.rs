//! The bytes of a disk, of which only those pages are held that were ever written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A page of an image.
pub(crate) const PAGE: usize = 4096;

/// A disk of a fixed size; pages that are not here are zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) size: u64,
    pub(crate) pages: BTreeMap<u64, Box<[u8]>>,
}

impl Image {
    pub(crate) const fn new(size: u64) -> Self {
        Self { size, pages: BTreeMap::new() }
    }

    /// Takes over the file that `mkfs` has made.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut image = Self::new(file.metadata()?.len());
        let mut page = vec![0; PAGE];
        for number in 0..image.size / PAGE as u64 {
            file.read_exact_at(&mut page, number * PAGE as u64)?;
            if page.iter().any(|byte| *byte != 0) {
                image.pages.insert(number, page.clone().into_boxed_slice());
            }
        }
        Ok(image)
    }

    /// Writes it to a sparse file.
    pub(crate) fn store(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.size)?;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (number, page) in &self.pages {
            let at = number * PAGE as u64;
            if start + run.len() as u64 != at || run.len() >= 1 << 20 {
                file.write_all_at(&run, start)?;
                run.clear();
                start = at;
            }
            run.extend_from_slice(page);
        }
        file.write_all_at(&run, start)
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min(buffer.len() - done);
            let to = &mut buffer[done..done + count];
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => to.copy_from_slice(&page[within..within + count]),
                None => to.fill(0),
            }
            done += count;
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min(bytes.len() - done);
            let page = self.pages.entry(at / PAGE as u64);
            let page = page.or_insert_with(|| vec![0; PAGE].into_boxed_slice());
            page[within..within + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_across_pages_and_the_rest_is_zeros() {
        let mut image = Image::new(4 * PAGE as u64);
        let bytes: Vec<u8> = (0..6000).map(|n| (n % 251) as u8 + 1).collect();
        image.write(3000, &bytes);
        let mut all = vec![9; 4 * PAGE];
        image.read(0, &mut all);
        assert_eq!(&all[3000..9000], bytes);
        assert!(all[..3000].iter().chain(&all[9000..]).all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_and_back_is_the_same_image() {
        let mut image = Image::new(64 * PAGE as u64);
        for page in [0_u64, 1, 2, 17, 18, 63] {
            image.write(page * PAGE as u64, &[page as u8 + 1; PAGE]);
        }
        let path = std::env::temp_dir().join(format!("abide-image-{}", std::process::id()));
        image.store(&path).unwrap();
        let loaded = Image::load(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(loaded.unwrap(), image);
    }
}
