//! What stands for the files of a workspace: directories, lists of chunks, snapshots.

use abide_workspace::{ChunkList, Snapshot, Tree};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let (tree, chunks, snapshot) = (Tree::read(data), ChunkList::read(data), Snapshot::read(data));
    let is_accepted = tree.is_ok() || chunks.is_ok() || snapshot.is_ok();
    if let Ok(tree) = tree {
        assert_eq!(tree.write(), data, "two forms of one directory");
        for entry in &tree.entries {
            assert_eq!(tree.get(&entry.name), Some(entry));
            let name = &entry.name;
            assert!(!name.is_empty() && name.len() <= 255 && name != b"." && name != b"..");
            assert!(!name.contains(&b'/') && !name.contains(&0), "a name that leads elsewhere");
        }
    }
    if let Ok(chunks) = chunks {
        assert_eq!(chunks.write(), data, "two forms of one list");
        let sum: u64 = chunks.chunks.iter().map(|(length, _)| u64::from(*length)).sum();
        assert_eq!(chunks.size(), sum);
    }
    if let Ok(snapshot) = snapshot {
        assert_eq!(Snapshot::read(&snapshot.write()).ok(), Some(snapshot));
    }
    is_accepted
}
