//! What the server can do: the same bytes in a row of one table, with nothing around them.

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement};

use crate::Outcome;

/// One connection, on which 1 KiB is inserted and committed again and again.
pub(crate) struct Bare {
    runtime: Runtime,
    client: Client,
    insert: Option<Statement>,
}

impl Bare {
    /// A connection to a database. Its other end is driven while something is asked on it.
    pub(crate) fn connect(url: &str) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
        runtime.spawn(connection);
        Ok(Self { runtime, client, insert: None })
    }

    /// The same, with the table that is inserted into.
    pub(crate) fn with_table(url: &str) -> Outcome<Self> {
        let mut bare = Self::connect(url)?;
        bare.run(
            "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, raw bytea NOT NULL)",
        )?;
        let insert = bare.client.prepare("INSERT INTO bare (raw) VALUES ($1)");
        bare.insert = Some(bare.runtime.block_on(insert)?);
        Ok(bare)
    }

    /// Inserts a row; it is committed when this returns.
    pub(crate) fn insert(&self, text: &str) {
        let insert = self.insert.as_ref().expect("a table");
        let bytes = text.as_bytes();
        let given: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&bytes];
        let rows = self.client.execute(insert, &given);
        assert_eq!(self.runtime.block_on(rows).expect("a bare insert"), 1);
    }

    /// Runs a statement.
    pub(crate) fn run(&self, statement: &str) -> Outcome {
        Ok(self.runtime.block_on(self.client.batch_execute(statement))?)
    }

    /// The version of the server.
    pub(crate) fn server_version(&self) -> Outcome<String> {
        let asked = self.client.query_one("SELECT current_setting('server_version')", &[]);
        Ok(self.runtime.block_on(asked)?.try_get(0)?)
    }

    /// The bytes of the database.
    pub(crate) fn database_bytes(&self) -> Outcome<f64> {
        let asked = self.client.query_one("SELECT pg_database_size(current_database())", &[]);
        Ok(self.runtime.block_on(asked)?.try_get::<_, i64>(0)? as f64)
    }
}
