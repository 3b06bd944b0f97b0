//! Bundles: exports and imports a session with its objects.
//!
//! A bundle is read and checked to its end before any of it becomes visible: its lines are kept in
//! memory in order, and written in one transaction.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use abide_journal::{
    BundleError, BundleHeader, BundleParent, BundleReader, BundleRecord, BundleWriter, ExportError,
    ImportError, ImportOutcome, ImportedBundle, JournalLine, LinePayload, Sum,
};
use abide_model::{EventRange, Fact, ObjectBatch, ObjectHash, Objects, Seq, SessionId, StoreError};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::ServerError;
use crate::flusher::place;
use crate::lease;
use crate::postgres_reader::PostgresReader;
use crate::postgres_store::{PostgresStore, key_holder, session_with_key};
use crate::storing_lock::{StoringMark, collected_meanwhile};

/// Lines read at a time.
const CHUNK: usize = 4096;
/// Bytes of objects put at a time.
const OBJECTS: usize = 4 << 20;

/// Called with each object of a bundle.
type PutObject<'a> = dyn FnMut(ObjectHash, &[u8]) -> Result<(), StoreError> + 'a;

/// A line to insert into the table.
struct EventRow {
    seq: Seq,
    sum: Sum,
    line: Vec<u8>,
}

/// An event in the table.
struct TableEvent {
    sum: Sum,
    /// Its data is erased.
    erased: bool,
}

/// A bundle compared with the table.
struct BundleTableComparison {
    header: BundleHeader,
    /// The project of a new session that names none.
    project: Option<String>,
    /// The lines that are not in the table.
    rows: Vec<EventRow>,
    outcome: ImportOutcome,
    /// Events that are erased in the bundle and not here.
    unerased: Vec<Seq>,
    /// Events whose data is in the bundle and is or was erased here.
    kept_erased: Vec<Seq>,
    /// Events whose data was erased here and comes back.
    brought_back: Vec<(Seq, Sum)>,
}

impl BundleTableComparison {
    fn imported(self) -> ImportedBundle {
        let Self { header: bundle, outcome, unerased, kept_erased, brought_back, .. } = self;
        let brought_back = brought_back.into_iter().map(|(seq, _)| seq).collect();
        let notes = Vec::new();
        ImportedBundle { bundle, outcome, unerased, kept_erased, brought_back, notes }
    }
}

/// What the first pass over a session found.
struct BundleExportSurvey {
    title: Option<String>,
    last: (Seq, Sum),
    bytes: u64,
    objects: HashMap<ObjectHash, u64>,
}

impl PostgresStore {
    /// Writes a bundle of a session. The output is a bundle only if this returns `Ok`.
    pub fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, ExportError> {
        let reader = self.reader(session)?;
        let parent = self.bundle_parent(&reader)?;
        let before = parent.map_or_else(|| (Seq::ZERO, Sum::genesis(session)), |p| (p.seq, p.sum));
        let lost = |reason: String| ExportError::Damaged { session, reason };
        let mut survey =
            BundleExportSurvey { title: None, last: before, bytes: 0, objects: HashMap::new() };
        self.each_bundle_line(&reader, before.0.next(), Seq(u64::MAX), &mut |raw| {
            let line = JournalLine::read(raw).map_err(|error| lost(error.to_string()))?;
            if line.seq != survey.last.0.next() || line.prev != survey.last.1.link() {
                let reason = format!("event {} does not follow from those before", line.seq);
                return Err(lost(reason));
            }
            survey.take(&line);
            Ok(())
        })?;
        let header = BundleHeader {
            session,
            created: session.created(),
            title: survey.title.clone(),
            events: survey.last.0.0 - before.0.0,
            objects: survey.objects.len() as u64,
            bytes: survey.bytes + survey.objects.values().sum::<u64>(),
            parent,
        };
        let bad = |source| match source {
            BundleError::Fault { fault, .. } => lost(fault.to_string()),
            source => ExportError::Bundle { session, source },
        };
        let mut writer = BundleWriter::begin(out, header.clone()).map_err(bad)?;
        self.each_bundle_line(&reader, before.0.next(), survey.last.0, &mut |raw| {
            let line = JournalLine::read(raw).map_err(|error| lost(error.to_string()))?;
            for named in line.objects() {
                if !writer.has(named.hash) {
                    let bytes = reader.objects.read(named.hash)?.ok_or_else(|| {
                        let (hash, seq) = (named.hash, line.seq);
                        lost(format!("object {hash} of event {seq} is missing or damaged"))
                    })?;
                    writer.object(named.hash, &bytes).map_err(bad)?;
                }
            }
            writer.line(raw).map_err(bad).map(|_| ())
        })?;
        writer.finish().map_err(bad)?.flush().map_err(|error| bad(BundleError::Write(error)))?;
        Ok(header)
    }

    /// The event that a fork starts after.
    fn bundle_parent(&self, reader: &PostgresReader) -> Result<Option<BundleParent>, StoreError> {
        let before = reader.known.shared();
        if before == Seq::ZERO {
            return Ok(None);
        }
        let (server, past, own) = (self.server().clone(), reader.clone(), reader.known.sid);
        self.server().block(async move {
            let parent = server.ask("read a session of", move |client| {
                Box::pin(async move {
                    let sql = "SELECT parent.id FROM session
                        JOIN session AS parent ON parent.sid = session.parent
                        WHERE session.sid = $1";
                    let row = client.query_one(sql, &[&own]).await?;
                    Ok(crate::postgres_store::session_id(row.try_get::<_, Uuid>(0)?))
                })
            });
            let session = parent.await?;
            Ok(Some(BundleParent { session, seq: before, sum: past.sum_of(before).await? }))
        })
    }

    fn each_bundle_line(
        &self,
        reader: &PostgresReader,
        first: Seq,
        last: Seq,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut range = EventRange { first, last, ..EventRange::ALL }.limit(CHUNK);
        loop {
            let asking = reader.clone();
            let (lines, next) = self.server().block(async move { asking.lines(range).await })?;
            for (_, line) in &lines {
                visit(line)?;
            }
            match next {
                Some(next) => range.first = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads a bundle to its end and says what an import would do. Writes nothing.
    pub fn check_bundle<R: Read>(
        &self,
        bundle: BundleReader<R>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, ImportError> {
        self.compare_bundle(bundle, project, &mut |_, _| Ok(()))
            .map(BundleTableComparison::imported)
    }

    /// Imports the session of a bundle. When this returns `Ok`, the outcome is durable. If the
    /// session exists and grows, waits up to `wait` for another writer. A new session that names no
    /// project gets this one, else the one that the store was opened for.
    pub fn import_bundle<R: Read>(
        &self,
        bundle: BundleReader<R>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, ImportError> {
        // Open until the lines are in the table.
        let objects = self.storing_objects();
        // Before it is read what is erased: an erasure waits, so that nothing is stored again that is
        // erased meanwhile.
        objects.has(&[])?;
        let mut batch = ObjectBatch::default();
        let mut put = |hash: ObjectHash, bytes: &[u8]| -> Result<(), StoreError> {
            batch.push(hash, bytes);
            if batch.plain().len() >= OBJECTS {
                objects.put_batch(&batch)?;
                batch.clear();
            }
            Ok(())
        };
        let mut compared = self.compare_bundle(bundle, project, &mut put)?;
        if !batch.is_empty() {
            objects.put_batch(&batch)?;
        }
        // Objects are durable before the events that name them.
        objects.sync()?;
        let rows = std::mem::take(&mut compared.rows);
        match compared.outcome {
            ImportOutcome::Made => {
                let project = compared.project.as_deref();
                let brings_back = !compared.brought_back.is_empty();
                self.import_new_bundle(&compared.header, project, rows, brings_back)?;
            }
            ImportOutcome::Forwarded { .. } => self.append_bundle(&compared.header, rows, wait)?,
            ImportOutcome::Same | ImportOutcome::Behind { .. } => {}
        }
        if !compared.brought_back.is_empty() {
            // Best effort: what is here is not left out of it again.
            let _ = self.forget_erased(compared.header.session, &compared.brought_back);
        }
        Ok(compared.imported())
    }

    /// Reads a bundle to its end and compares it with the table. Puts an object if it is named by a
    /// new line or by one here that has its data: not for a line that is erased here or refused.
    fn compare_bundle<R: Read>(
        &self,
        mut bundle: BundleReader<R>,
        project: Option<&str>,
        object: &mut PutObject<'_>,
    ) -> Result<BundleTableComparison, ImportError> {
        let header = bundle.header().clone();
        let id = header.session;
        let here = match self.reader(id) {
            Ok(reader) => Some(reader),
            Err(StoreError::NoSession { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if here.is_none() {
            self.check_bundle_parent(&header)?;
        }
        let known = match &here {
            Some(reader) => self.events_for_bundle(reader)?,
            None => HashMap::new(),
        };
        let mut rows = Vec::new();
        let mut seen = HashSet::new();
        let (mut unerased, mut kept_erased, mut brought_back) =
            (Vec::new(), Vec::new(), Vec::new());
        let (erased, brings_back) = (self.erased_of(id)?, bundle.brings_back_erased());
        let mut project = project.map(str::to_owned);
        // Objects that no line has named yet. The next line names most of them.
        let mut waiting: HashMap<ObjectHash, Vec<u8>> = HashMap::new();
        while let Some(record) = bundle.next()? {
            let line = match record {
                BundleRecord::Object { hash, bytes } => {
                    waiting.insert(hash, bytes.to_vec());
                    continue;
                }
                BundleRecord::Line(line) => line,
            };
            let erased_here;
            let is_whole = !matches!(line.body(), LinePayload::Erased { .. });
            match known.get(&line.seq) {
                Some(ours) if ours.sum == line.sum => {
                    seen.insert(line.seq);
                    erased_here = ours.erased;
                    match (is_whole, ours.erased) {
                        (false, false) => unerased.push(line.seq),
                        (true, true) => kept_erased.push(line.seq),
                        _ => {}
                    }
                }
                Some(_) => {
                    return Err(ImportError::Diverged { session: id, seq: line.seq });
                }
                None => {
                    // What says how the session is read is never erased.
                    let may_be = line.head().is_some_and(|head| !head.kind.is_structural());
                    let was_erased = is_whole
                        && may_be
                        && erased.contains(&(line.seq, line.sum.as_ascii().to_vec()));
                    erased_here = was_erased && !brings_back;
                    if here.is_none() && rows.is_empty() {
                        if erased_here {
                            // The project is known also where the first event is erased.
                            project = project_and_key(&line).0.or(project);
                        } else {
                            self.check_bundle_key(&line, id, project.as_deref())?;
                        }
                    }
                    let line_bytes = if erased_here {
                        kept_erased.push(line.seq);
                        let mut bytes = line.erased();
                        // A row has no line break.
                        bytes.pop();
                        bytes
                    } else {
                        if was_erased {
                            brought_back.push((line.seq, line.sum));
                        }
                        line.bytes().to_vec()
                    };
                    rows.push(EventRow { seq: line.seq, sum: line.sum, line: line_bytes });
                }
            }
            for named in line.objects().into_iter().filter(|_| !erased_here) {
                if let Some(bytes) = waiting.remove(&named.hash) {
                    object(named.hash, &bytes)?;
                }
            }
        }
        let last = known.keys().max().copied().unwrap_or(Seq::ZERO);
        let outcome = match (&here, rows.first()) {
            (None, _) => ImportOutcome::Made,
            (Some(_), Some(_)) => ImportOutcome::Forwarded { from: last },
            (Some(_), None) if seen.len() < known.len() => ImportOutcome::Behind { here: last },
            (Some(_), None) => ImportOutcome::Same,
        };
        Ok(BundleTableComparison {
            header,
            project,
            rows,
            outcome,
            unerased,
            kept_erased,
            brought_back,
        })
    }

    /// The sums of a session's own events, and which of them are erased.
    fn events_for_bundle(
        &self,
        reader: &PostgresReader,
    ) -> Result<HashMap<Seq, TableEvent>, StoreError> {
        let (server, sid, session) = (self.server().clone(), reader.known.sid, reader.session);
        self.server().block(async move {
            server
                .ask("read a session of", |client| {
                    Box::pin(async move {
                        // The salt comes before the two sums at the end; an erased line has none.
                        let sql = "SELECT seq, sum,
                                substring(line FROM length(line) - 47 FOR 12) = '------------'::bytea
                            FROM event WHERE sid = $1";
                        let rows = client.query(sql, &[&sid]).await?;
                        let each = rows.iter().map(|row| {
                            let seq = Seq(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0));
                            let sum = Sum::from_ascii(row.try_get(1)?);
                            let sum = sum.ok_or_else(|| StoreError::Damaged {
                                place: format!("event {seq} of session {session}"),
                                reason: "unreadable sum".to_owned(),
                            })?;
                            let erased: Option<bool> = row.try_get(2)?;
                            Ok((seq, TableEvent { sum, erased: erased.unwrap_or(false) }))
                        });
                        each.collect()
                    })
                })
                .await
        })
    }

    fn check_bundle_parent(&self, bundle: &BundleHeader) -> Result<(), ImportError> {
        let Some(BundleParent { session: parent, seq, sum }) = bundle.parent else {
            return Ok(());
        };
        let missing = || ImportError::NoParent { session: bundle.session, parent, seq };
        let reader = match self.reader(parent) {
            Err(StoreError::NoSession { .. }) => return Err(missing()),
            reader => reader?,
        };
        let here = self.server().block(async move { reader.sum_of(seq).await });
        if here.is_ok_and(|here| here == sum) { Ok(()) } else { Err(missing()) }
    }

    fn check_bundle_key(
        &self,
        line: &JournalLine<'_>,
        id: SessionId,
        told: Option<&str>,
    ) -> Result<(), ImportError> {
        let (project, Some(key)) = project_and_key(line) else { return Ok(()) };
        let project = project.or_else(|| told.map(str::to_owned));
        let known_by = self.projects_of_bundle(project.as_deref());
        let (server, wanted) = (self.server().clone(), key.clone());
        let holder = self.server().block(async move {
            server
                .ask("find a session in", |client| {
                    let (known_by, wanted) = (known_by.clone(), wanted.clone());
                    Box::pin(async move { key_holder(&client, &known_by, &wanted).await })
                })
                .await
        })?;
        match holder {
            Some(session) if session != id => Err(ImportError::KeyTaken { key, session }),
            _ => Ok(()),
        }
    }

    /// The ids of the project that a session names, if any.
    fn projects_of_bundle(&self, project: Option<&str>) -> Vec<String> {
        let ours = &self.options().projects;
        match project {
            Some(project) if !ours.iter().any(|one| one == project) => vec![project.to_owned()],
            _ => ours.clone(),
        }
    }

    fn import_new_bundle(
        &self,
        header: &BundleHeader,
        told: Option<&str>,
        rows: Vec<EventRow>,
        brings_back: bool,
    ) -> Result<(), ImportError> {
        let id = header.session;
        let parent = header.parent.map(|parent| parent.session);
        let reader = parent.map(|parent| self.reader(parent)).transpose()?;
        let before = header.before().0;
        let holder = reader.as_ref().and_then(|reader| {
            reader.known.stretches.iter().find(|part| part.last >= before).map(|part| part.sid)
        });
        let first = rows.first().and_then(|row| JournalLine::read(&row.line).ok());
        let (project, key) = first.as_ref().map(project_and_key).unwrap_or_default();
        let project = project.or_else(|| told.map(str::to_owned));
        let projects = self.projects_of_bundle(project.as_deref());
        let project = project.or_else(|| projects.first().cloned()).unwrap_or_default();
        let (server, rows, session) = (self.server().clone(), Arc::new(rows), id);
        let uuid = Uuid::from_bytes(*id.as_bytes());
        let (mark, shown) = (self.storing().mark(), self.place());
        let made = Arc::new((uuid, (projects, project), key, holder, place(before.0)));
        Ok(self.server().block(async move {
            server
                .ask_much("put a session into", |mut client| {
                    let (rows, made, shown) = (rows.clone(), made.clone(), shown.clone());
                    Box::pin(async move {
                        let transaction = client.transaction().await?;
                        let (id, (projects, project), key, parent, before) = &*made;
                        if let Some(other) =
                            session_with_key(&transaction, projects, key.as_deref()).await?
                            && other != session
                        {
                            return Err(StoreError::Ambiguous {
                                reference: key.clone().unwrap_or_default(),
                                matches: vec![other.to_string()],
                            }
                            .into());
                        }
                        let sql = "INSERT INTO session (id, project, key, parent, parent_seq)
                            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING sid";
                        let given: [&(dyn ToSql + Sync); 5] = [id, project, key, parent, before];
                        let Some(row) = transaction.query_opt(sql, &given).await? else {
                            // The answer was lost; or another process has inserted it meanwhile.
                            let sql = "SELECT sid FROM session WHERE id = $1";
                            let sid: i64 = transaction.query_one(sql, &[id]).await?.try_get(0)?;
                            return bundle_follows(&transaction, (session, sid), &rows)
                                .await
                                .map(drop);
                        };
                        let sid: i64 = row.try_get(0)?;
                        let lease = "INSERT INTO lease (sid) VALUES ($1)";
                        transaction.execute(lease, &[&sid]).await?;
                        check_bundle_mark(&transaction, mark, &shown).await?;
                        put_bundle_rows(&transaction, sid, &rows).await?;
                        if !brings_back {
                            refuse_erased_rows(&transaction, session, &rows).await?;
                        }
                        transaction.commit().await?;
                        Ok(())
                    })
                })
                .await
        })?)
    }

    /// Appends lines after the end of an existing session, as its only writer.
    fn append_bundle(
        &self,
        header: &BundleHeader,
        rows: Vec<EventRow>,
        wait: Duration,
    ) -> Result<(), ImportError> {
        let id = header.session;
        let reader = self.reader(id)?;
        let (server, env) = (self.server().clone(), self.options().env.clone());
        let (take_over, sid) = (self.options().take_over, reader.known.sid);
        let (mark, shown) = (self.storing().mark(), self.place());
        let rows = Arc::new(rows);
        Ok(self.server().block(async move {
            let held = lease::acquire_lease(&server, &env, (id, sid), wait, take_over).await?;
            let done = server
                .ask_much("put a session into", |mut client| {
                    let (rows, shown) = (rows.clone(), shown.clone());
                    Box::pin(async move {
                        let transaction = client.transaction().await?;
                        let sql = "SELECT 1 FROM lease WHERE sid = $1 AND epoch = $2 FOR SHARE";
                        let epoch = lease::lease_epoch_number(held.epoch);
                        if transaction.query_opt(sql, &[&sid, &epoch]).await?.is_none() {
                            let by = "another writer".to_owned();
                            return Err(StoreError::TakenOver { session: id, by }.into());
                        }
                        if !bundle_follows(&transaction, (id, sid), &rows).await? {
                            return Ok(());
                        }
                        check_bundle_mark(&transaction, mark, &shown).await?;
                        put_bundle_rows(&transaction, sid, &rows).await?;
                        transaction.commit().await?;
                        Ok(())
                    })
                })
                .await;
            let released = lease::release_lease(&server, held).await;
            done?;
            released
        })?)
    }
}

/// Whether these lines follow the last one here. `false` if all are here already: an answer was
/// lost.
async fn bundle_follows(
    transaction: &deadpool_postgres::Transaction<'_>,
    (session, sid): (SessionId, i64),
    rows: &[EventRow],
) -> Result<bool, ServerError> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(false) };
    let diverged = || StoreError::Damaged {
        place: format!("session {session}"),
        reason: format!("event {} was just changed by another process", first.seq),
    };
    let sql = "SELECT seq, sum FROM event WHERE sid = $1 ORDER BY seq DESC LIMIT 1";
    let end = transaction.query_one(sql, &[&sid]).await?;
    let (seq, sum): (i64, &[u8]) = (end.try_get(0)?, end.try_get(1)?);
    if seq == place(last.seq.0) && sum == last.sum.as_ascii() {
        return Ok(false);
    }
    let links = Sum::from_ascii(sum).zip(JournalLine::read(&first.line).ok());
    let linked = links.is_some_and(|(sum, line)| line.prev == sum.link());
    if place(first.seq.0) == seq.saturating_add(1) && linked {
        return Ok(true);
    }
    Err(diverged().into())
}

/// The project and the client's key, if this is the line that sets them.
fn project_and_key(line: &JournalLine<'_>) -> (Option<String>, Option<String>) {
    match line.event().map(|event| event.fact()) {
        Some(Ok(Fact::SessionCreated(created))) => (created.fields.project_id, created.fields.key),
        _ => (None, None),
    }
}

/// Refuses lines whose objects may have been removed since they were stored. Until the transaction
/// ends, none is.
async fn check_bundle_mark(
    transaction: &deadpool_postgres::Transaction<'_>,
    mark: StoringMark,
    place: &str,
) -> Result<(), ServerError> {
    let kept = match mark {
        StoringMark::Any => return Ok(()),
        StoringMark::Lost => None,
        StoringMark::Of(mark) => {
            let sql = "SELECT 1 FROM collection WHERE mark = $1 FOR SHARE";
            transaction.query_opt(sql, &[&mark]).await?
        }
    };
    kept.map(|_| ()).ok_or_else(|| collected_meanwhile(place).into())
}

async fn put_bundle_rows(
    transaction: &deadpool_postgres::Transaction<'_>,
    sid: i64,
    rows: &[EventRow],
) -> Result<(), ServerError> {
    let sql = "INSERT INTO event (sid, seq, sum, line)
        SELECT $1, given.seq, given.sum, given.line
        FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS given (seq, sum, line)
        ON CONFLICT (sid, seq) DO NOTHING";
    let statement = transaction.prepare_cached(sql).await?;
    for chunk in rows.chunks(CHUNK) {
        let seqs: Vec<i64> = chunk.iter().map(|row| place(row.seq.0)).collect();
        let sums: Vec<Vec<u8>> = chunk.iter().map(|row| row.sum.as_ascii().to_vec()).collect();
        let lines: Vec<&[u8]> = chunk.iter().map(|row| &row.line[..]).collect();
        let given: [&(dyn ToSql + Sync); 4] = [&sid, &seqs, &sums, &lines];
        transaction.execute(&statement, &given).await?;
    }
    Ok(())
}

/// An error if data of these lines was erased here while the bundle was read, and the session was
/// removed.
async fn refuse_erased_rows(
    transaction: &deadpool_postgres::Transaction<'_>,
    session: SessionId,
    rows: &[EventRow],
) -> Result<(), ServerError> {
    let id = Uuid::from_bytes(*session.as_bytes());
    let sql = "SELECT seq, sum FROM erased WHERE session = $1";
    for erased in transaction.query(sql, &[&id]).await? {
        let (seq, sum): (i64, &[u8]) = (erased.try_get(0)?, erased.try_get(1)?);
        let row = rows.iter().find(|row| place(row.seq.0) == seq && row.sum.as_ascii() == sum);
        let is_whole = row.and_then(|row| JournalLine::read(&row.line).ok()).is_some_and(|line| {
            let structural = line.head().is_none_or(|head| head.kind.is_structural());
            !structural && !matches!(line.body(), LinePayload::Erased { .. })
        });
        if is_whole {
            return Err(StoreError::Storage {
                action: "put a session into",
                place: format!("session {session}"),
                source: Arc::new(std::io::Error::other(format!(
                    "event {seq} was just erased; try again"
                ))),
            }
            .into());
        }
    }
    Ok(())
}

impl BundleExportSurvey {
    fn take(&mut self, line: &JournalLine<'_>) {
        self.last = (line.seq, line.sum);
        self.bytes += line.bytes().len() as u64;
        self.objects.extend(line.objects().into_iter().map(|named| (named.hash, named.size)));
        let title = match line.event().map(|event| event.fact()) {
            Some(Ok(Fact::SessionCreated(created))) => created.fields.title,
            Some(Ok(Fact::SessionUpdated(fields))) => fields.title,
            _ => None,
        };
        self.title = title.or_else(|| self.title.take());
    }
}
