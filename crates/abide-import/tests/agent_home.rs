//! A home with the files of an agent, and a store that they are imported into.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use abide::secrets::{Redaction, RedactionOptions, RedactionSettings};
use abide::{
    Event, EventRange, LocalOptions, LocalStore, SessionId, SessionRef, SessionView, Store,
};
use abide_import::{
    FileImporter, FilesImported, FoundSession, ImportNews, SourceFinder, source_files,
    write_source_file,
};
use tempfile::TempDir;

pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A home of a person who uses agents, and a store.
pub(crate) struct AgentHome {
    dir: TempDir,
    pub(crate) store: Store,
}

impl AgentHome {
    pub(crate) fn new() -> Self {
        let home = Self::redacting();
        Self { store: home.store.with_redaction(Redaction::off()), ..home }
    }

    /// Secrets become marks, as for everybody.
    pub(crate) fn redacting() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::init(&dir.path().join("store"), LocalOptions::default()).unwrap();
        let options = RedactionOptions {
            settings: RedactionSettings::OfUser(None),
            variables: Some(Vec::new()),
            directory: None,
            state: Some(dir.path().join("state")),
        };
        let store = Store::local(store).with_redaction(Redaction::new(options));
        Self { dir, store }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The file of the only session.
    pub(crate) fn file(&self) -> PathBuf {
        self.path().join(".claude/projects/-p").join(format!("{ID}.jsonl"))
    }

    pub(crate) fn write(&self, text: impl AsRef<[u8]>) {
        write(&self.file(), text.as_ref());
    }

    pub(crate) fn append(&self, text: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().append(true).open(self.file()).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    pub(crate) fn found(&self) -> Vec<FoundSession> {
        let home = self.path().to_owned();
        let found = SourceFinder { home, ..SourceFinder::default() }.find();
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        found.sessions
    }

    pub(crate) fn news(&self) -> Vec<ImportNews> {
        let importer = FileImporter::new(&self.store, None);
        self.found().iter().map(|session| importer.news(session).unwrap()).collect()
    }

    pub(crate) fn import(&self) -> FilesImported {
        let mut importer = FileImporter::new(&self.store, None);
        let done = importer.import(&self.found(), &AtomicBool::new(false), &|_| {}).unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        done
    }

    /// Imports all there is, where there is only one session.
    pub(crate) fn import_one(&self) -> SessionId {
        let done = self.import();
        assert_eq!(done.sessions.len(), 1);
        done.sessions[0].as_ref().unwrap().session.unwrap()
    }

    pub(crate) fn view(&self, session: SessionId) -> SessionView {
        self.store.view(&SessionRef::Id(session)).unwrap()
    }

    pub(crate) fn events(&self, session: SessionId) -> Vec<Event> {
        self.view(session).events(EventRange::ALL).map(Result::unwrap).collect()
    }

    /// A file as the session gives it back.
    pub(crate) fn given_back(&self, session: SessionId, name: &str) -> Vec<u8> {
        let view = self.view(session);
        let files = source_files(&view).unwrap();
        let file = files.iter().find(|file| file.name == name);
        let file = file.unwrap_or_else(|| panic!("no {name} in {files:?}"));
        let mut bytes = Vec::new();
        write_source_file(&view, file, &mut bytes, Path::new(name)).unwrap();
        bytes
    }

    /// The text of the ledger.
    pub(crate) fn ledger(&self) -> String {
        fs::read_to_string(self.path().join("store/imported.json")).unwrap()
    }

    /// Forgets what was imported, as if the ledger had been lost.
    pub(crate) fn lose_the_ledger(&self) {
        fs::remove_file(self.path().join("store/imported.json")).unwrap();
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A line of a person's prompt.
pub(crate) fn prompt(id: &str, parent: Option<&str>, text: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":"/p","sessionId":"{ID}","version":"2.1","gitBranch":"main","type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"{id}","timestamp":"2026-01-02T03:04:05.000Z"}}"#
    )
}

/// A line with an answer of the model.
pub(crate) fn answer(id: &str, parent: &str, message: &str, block: &str, output: u64) -> String {
    format!(
        r#"{{"parentUuid":"{parent}","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"{ID}","version":"2.1","gitBranch":"main","message":{{"id":"{message}","type":"message","role":"assistant","model":"m-1","content":[{block}],"stop_reason":null,"usage":{{"input_tokens":3,"cache_creation_input_tokens":10,"cache_read_input_tokens":20,"output_tokens":{output}}}}},"requestId":"r","type":"assistant","uuid":"{id}","timestamp":"2026-01-02T03:04:06.000Z"}}"#
    )
}

/// A block of text.
pub(crate) fn said(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}
