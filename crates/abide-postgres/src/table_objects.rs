//! Objects in the database: a row for each, compressed if that pays, and checked against its name
//! when it is read.

use std::ops::ControlFlow;
use std::sync::Arc;

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};
use tokio_postgres::types::ToSql;

use crate::server_connection::ServerConnection;

/// The most bytes put by one statement.
const STATEMENT: usize = 8 << 20;
/// The most objects read by one statement.
const READ: usize = 64;
/// The largest object, in bytes.
const LARGEST: usize = 1 << 30;
const LEVEL: i32 = 3;
const PLAIN: i16 = 0;
const ZSTD: i16 = 1;

/// The objects of a store that keeps them in the database.
#[derive(Debug)]
pub(crate) struct TableObjects {
    server: Arc<ServerConnection>,
}

/// An object's row.
struct ObjectRow {
    hash: Vec<u8>,
    size: i64,
    form: i16,
    bytes: Vec<u8>,
}

impl ObjectRow {
    fn new(hash: ObjectHash, plain: &[u8]) -> Self {
        let packed = zstd::bulk::compress(plain, LEVEL).ok();
        let (form, bytes) = match packed.filter(|packed| packed.len() < plain.len()) {
            Some(packed) => (ZSTD, packed),
            None => (PLAIN, plain.to_vec()),
        };
        let size = i64::try_from(plain.len()).unwrap_or(i64::MAX);
        Self { hash: hash.as_bytes().to_vec(), size, form, bytes }
    }

    /// The bytes of the object, if they match its name.
    fn unpack(&self, hash: ObjectHash) -> Option<Vec<u8>> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= LARGEST)?;
        let plain = match self.form {
            PLAIN => self.bytes.clone(),
            ZSTD => zstd::bulk::decompress(&self.bytes, size).ok()?,
            _ => return None,
        };
        (plain.len() == size && ObjectHash::of(&plain) == hash).then_some(plain)
    }
}

impl TableObjects {
    pub(crate) const fn new(server: Arc<ServerConnection>) -> Self {
        Self { server }
    }

    fn put_rows(&self, rows: Vec<ObjectRow>) -> Result<u64, StoreError> {
        let taken = rows.iter().map(|row| row.bytes.len() as u64).sum();
        let server = self.server.clone();
        let rows = Arc::new(rows);
        self.server.block(async move {
            server
                .ask("put objects into", |client| {
                    let rows = rows.clone();
                    Box::pin(async move {
                        let hashes: Vec<&[u8]> = rows.iter().map(|row| &row.hash[..]).collect();
                        let sizes: Vec<i64> = rows.iter().map(|row| row.size).collect();
                        let forms: Vec<i16> = rows.iter().map(|row| row.form).collect();
                        let bytes: Vec<&[u8]> = rows.iter().map(|row| &row.bytes[..]).collect();
                        // A damaged object is replaced by whoever has its bytes.
                        let sql = "INSERT INTO object AS old (hash, size, form, bytes)
                            SELECT DISTINCT ON (given.hash) given.*
                            FROM unnest($1::bytea[], $2::bigint[], $3::smallint[], $4::bytea[])
                                AS given (hash, size, form, bytes) ORDER BY given.hash
                            ON CONFLICT (hash) DO UPDATE SET size = excluded.size,
                                form = excluded.form, bytes = excluded.bytes
                            WHERE (old.size, old.form, old.bytes)
                                <> (excluded.size, excluded.form, excluded.bytes)";
                        let statement = client.prepare_cached(sql).await?;
                        let given: [&(dyn ToSql + Sync); 4] = [&hashes, &sizes, &forms, &bytes];
                        client.execute(&statement, &given).await?;
                        Ok(())
                    })
                })
                .await
        })?;
        Ok(taken)
    }

    /// Inserts rows, a statement's worth at a time.
    fn put(&self, objects: impl Iterator<Item = (ObjectHash, Vec<u8>)>) -> Result<u64, StoreError> {
        let (mut rows, mut bytes, mut taken) = (Vec::new(), 0, 0);
        for (hash, plain) in objects {
            let row = ObjectRow::new(hash, &plain);
            bytes += row.bytes.len();
            rows.push(row);
            if bytes >= STATEMENT {
                taken += self.put_rows(std::mem::take(&mut rows))?;
                bytes = 0;
            }
        }
        if rows.is_empty() { Ok(taken) } else { Ok(taken + self.put_rows(rows)?) }
    }

    fn fetch(&self, hashes: &[ObjectHash]) -> Result<Vec<ObjectRow>, StoreError> {
        let server = self.server.clone();
        let wanted: Arc<Vec<Vec<u8>>> =
            Arc::new(hashes.iter().map(|hash| hash.as_bytes().to_vec()).collect());
        self.server.block(async move {
            server
                .ask("read objects of", |client| {
                    let wanted = wanted.clone();
                    Box::pin(async move {
                        let sql = "SELECT hash, size, form, bytes FROM object WHERE hash = ANY($1)";
                        let statement = client.prepare_cached(sql).await?;
                        let rows = client.query(&statement, &[&*wanted]).await?;
                        let each = rows.iter().map(|row| {
                            Ok(ObjectRow {
                                hash: row.try_get(0)?,
                                size: row.try_get(1)?,
                                form: row.try_get(2)?,
                                bytes: row.try_get(3)?,
                            })
                        });
                        each.collect()
                    })
                })
                .await
        })
    }
}

impl Objects for TableObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let server = self.server.clone();
        let wanted: Arc<Vec<Vec<u8>>> =
            Arc::new(hashes.iter().map(|hash| hash.as_bytes().to_vec()).collect());
        let found: std::collections::HashSet<Vec<u8>> = self.server.block(async move {
            server
                .ask("look for objects in", |client| {
                    let wanted = wanted.clone();
                    Box::pin(async move {
                        let sql = "SELECT hash FROM object WHERE hash = ANY($1)";
                        let statement = client.prepare_cached(sql).await?;
                        let rows = client.query(&statement, &[&*wanted]).await?;
                        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
                    })
                })
                .await
        })?;
        Ok(hashes.iter().map(|hash| found.contains(&hash.as_bytes()[..])).collect())
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        let mut rest = batch.plain();
        let objects = batch.rows().iter().map(|(hash, size)| {
            let size = usize::try_from(*size).unwrap_or(usize::MAX).min(rest.len());
            let (plain, behind) = rest.split_at(size);
            rest = behind;
            (*hash, plain.to_vec())
        });
        self.put(objects)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.put(objects.iter().map(|object| (object.hash, object.bytes.clone())))
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Each statement was a transaction, and durable once it was answered.
        Ok(())
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.fetch(&[hash])?.into_iter().next();
        Ok(found.and_then(|row| row.unpack(hash)))
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        for (chunk, first) in hashes.chunks(READ).zip((0..).step_by(READ)) {
            let mut found = std::collections::HashMap::new();
            for row in self.fetch(chunk)? {
                found.insert(row.hash.clone(), row);
            }
            for (hash, index) in chunk.iter().zip(first..) {
                let row = found.get(&hash.as_bytes()[..]);
                let plain = row.and_then(|row| row.unpack(*hash));
                if each(index, plain.as_deref()) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        let there = self.has(hashes)?;
        let first = |hash: &ObjectHash| hash.as_bytes().first().copied().map(u64::from);
        Ok(hashes.iter().zip(there).map(|(hash, there)| first(hash).filter(|_| there)).collect())
    }
}
