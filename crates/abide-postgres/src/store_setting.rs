//! Settings that hold for everyone who uses a store, and its disk usage.

use abide_model::StoreError;
use deadpool_postgres::GenericClient;
use deadpool_postgres::Object;

use crate::error::ServerError;
use crate::postgres_store::PostgresStore;

/// The setting with the place of the objects, if they are not in the database.
const OBJECTS: &str = "objects";

/// The disk usage of a store in bytes, indexes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatabaseSpace {
    /// The events.
    pub events: u64,
    /// The state caches.
    pub state: u64,
    /// Objects in the database.
    pub objects: u64,
    /// The search index.
    pub index: u64,
    /// Everything else.
    pub other: u64,
}

/// Where the objects are; `None` if they are in the database.
pub(crate) async fn objects_place(client: &Object) -> Result<Option<String>, ServerError> {
    let sql = "SELECT value FROM setting WHERE name = $1";
    let row = client.query_opt(sql, &[&OBJECTS]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn store_id_setting(client: &Object) -> Result<String, ServerError> {
    let sql = "SELECT coalesce((extract(epoch FROM min(applied)) * 1000000)::bigint, 0)::text
        || ' ' || current_database()::text FROM migration";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// What tells this store from others that keep objects in the same place. A copy of the database on
/// another server is another store.
pub(crate) async fn objects_claim_setting(client: &Object) -> Result<String, ServerError> {
    let store = store_id_setting(client).await?;
    let sql = "SELECT system_identifier::text || ' ' || current_schema() FROM pg_control_system()";
    let server: String = client.query_one(sql, &[]).await?.try_get(0)?;
    Ok(format!("{server} {store}"))
}

impl PostgresStore {
    /// Where the store's objects are; `None` if they are in the database.
    pub fn objects_place(&self) -> Result<Option<String>, StoreError> {
        let server = self.server().clone();
        self.server().block(async move {
            server.ask("open", |client| Box::pin(async move { objects_place(&client).await })).await
        })
    }

    /// Identifies this store among others that may be at the same place later: when its tables were
    /// made, to the microsecond, and the name of the database.
    pub fn store_id(&self) -> Result<String, StoreError> {
        let server = self.server().clone();
        self.server().block(async move {
            server
                .ask("open", |client| Box::pin(async move { store_id_setting(&client).await }))
                .await
        })
    }

    /// Sets where objects are stored from now on. Refused if there already are objects elsewhere.
    pub fn set_objects_place(&self, place: &str) -> Result<(), StoreError> {
        let (server, place) = (self.server().clone(), place.to_owned());
        let shown = self.place();
        self.server().block(async move {
            server
                .ask("set up", |mut client| {
                    let (place, shown) = (place.clone(), shown.clone());
                    Box::pin(async move {
                        let transaction = client.transaction().await?;
                        check_objects_setting(&transaction, &place, &shown).await?;
                        // Of two different places set at once, the second is refused.
                        let sql = "INSERT INTO setting AS old (name, value) VALUES ($1, $2)
                            ON CONFLICT (name) DO UPDATE SET value = old.value
                            WHERE old.value = excluded.value";
                        if transaction.execute(sql, &[&OBJECTS, &place]).await? == 0 {
                            let reason = "another process has just set another place".to_owned();
                            return Err(StoreError::Damaged { place: shown, reason }.into());
                        }
                        transaction.commit().await?;
                        Ok(())
                    })
                })
                .await
        })
    }

    /// Checks whether objects can be stored there from now on. Writes nothing.
    pub fn check_objects_place(&self, place: &str) -> Result<(), StoreError> {
        let (server, place) = (self.server().clone(), place.to_owned());
        let shown = self.place();
        self.server().block(async move {
            server
                .ask("look at", |client| {
                    let (place, shown) = (place.clone(), shown.clone());
                    Box::pin(async move { check_objects_setting(&client, &place, &shown).await })
                })
                .await
        })
    }

    /// The disk usage.
    pub fn space(&self) -> Result<DatabaseSpace, StoreError> {
        let server = self.server().clone();
        self.server().block(async move {
            let schema = server.url().schema().to_owned();
            server
                .ask("look at", |client| {
                    let schema = schema.clone();
                    Box::pin(async move {
                        let sql = "SELECT relname::text, pg_total_relation_size(pg_class.oid)
                            FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
                            WHERE nspname = $1 AND relkind = 'r'";
                        let mut space = DatabaseSpace::default();
                        for row in client.query(sql, &[&schema]).await? {
                            let bytes = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
                            match row.try_get::<_, &str>(0)? {
                                "event" => space.events += bytes,
                                "snapshot" | "page" => space.state += bytes,
                                "object" => space.objects += bytes,
                                "session" | "lease" | "migration" | "setting" => {
                                    space.other += bytes;
                                }
                                _ => space.index += bytes,
                            }
                        }
                        Ok(space)
                    })
                })
                .await
        })
    }
}

/// Refuses a place if objects are elsewhere, or may be in the database.
async fn check_objects_setting<C: GenericClient>(
    client: &C,
    place: &str,
    shown: &str,
) -> Result<(), ServerError> {
    let sql = "SELECT coalesce((SELECT value FROM setting WHERE name = $1),
        (SELECT 'the database' FROM session LIMIT 1))";
    let known: Option<String> = client.query_one(sql, &[&OBJECTS]).await?.try_get(0)?;
    match known.filter(|known| known != place) {
        Some(known) => Err(StoreError::ObjectsElsewhere { place: shown.to_owned(), known }.into()),
        None => Ok(()),
    }
}
