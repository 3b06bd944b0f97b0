//! Plans and applies the repair of a session in the tables.
//!
//! First the session records what is lost, after every event that it ever had, so that no number is
//! used twice. Then the rows that cannot be read are moved to `quarantine`, and what is derived from
//! them is dropped; an entry there for each range that is lost says that this was done. After an
//! interruption in between the next repair does it.

use std::sync::Arc;
use std::time::Duration;

use abide_maintain::{
    Examination, FinishedRepair, ReconstructionSource, RepairAction, RepairAftermath, RepairEvents,
    RepairPlan, RepairRequest, RepairStrategy, is_contradiction, new_repair_id,
};
use abide_model::{Finding, Recovery, Seq, SessionId, SessionWriter, StoreError};
use deadpool_postgres::Object;

use crate::doctor::{ExaminedRows, LeaseOwnership, PostgresDoctor};
use crate::erasure::{family_of, forget_derived_rows};
use crate::error::ServerError;
use crate::flusher::place;
use crate::lease::{Lease, lease_epoch_number};
use crate::postgres_reader::{PostgresReader, StateAtEnd};
use crate::state_cache::StatePageLayout;

/// What a user needs to set rows aside, and to name objects as lost.
const TO_SET_ASIDE: [(&str, &str); 2] = [("event", "DELETE"), ("quarantine", "INSERT")];
const TO_NAME_OBJECTS: [(&str, &str); 1] = [("collection", "UPDATE")];

const FINISH_ERASURE: RepairAction = RepairAction::Finish { what: "an erasure" };
const FINISH_REPAIR: RepairAction = RepairAction::Finish { what: "a repair" };
/// The table that a repair has what it replaces in.
const QUARANTINE: &str = "the table `quarantine`";

impl PostgresDoctor<'_> {
    /// Plans the repair of a session. Changes nothing.
    pub fn plan(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<RepairPlan, StoreError> {
        let facts = &examination.facts;
        let mut plan = RepairPlan { session: Some(examination.session), ..RepairPlan::default() };
        let goes_back = request.from.is_some()
            || request.strategy == Some(RepairStrategy::Checkpoint)
                && examination.findings.iter().any(is_contradiction);
        if facts.damaged || goes_back {
            let source = ReconstructionSource {
                events: 0,
                name: "database",
                without: "nothing in the database has",
            };
            plan.choose_strategy(examination, request, &facts.lost, source)?;
        }
        if !facts.unreadable.is_empty() {
            plan.actions.push(RepairAction::SetAside { events: facts.unreadable.clone() });
        }
        plan.plan_events(examination, request, &facts.lost)?;
        if examination.findings.iter().any(|found| found.rule == "unfinished-repair") {
            plan.actions.push(FINISH_REPAIR);
        }
        if examination.findings.iter().any(|found| found.rule == "state-mismatch") {
            plan.actions.push(RepairAction::MakeAnew {
                what: "snapshot of the state",
                path: "the table `snapshot`".into(),
            });
        }
        plan.keep_left(examination);
        Ok(plan)
    }

    /// Plans the repair of what the store has beside its sessions.
    #[must_use]
    pub fn plan_store(&self, findings: &[Finding]) -> RepairPlan {
        let mut plan = RepairPlan::default();
        if findings.iter().any(|found| found.rule == "unfinished-erasure") {
            plan.actions.push(FINISH_ERASURE);
        }
        plan
    }

    /// Repairs a session as planned. If it has changed since, nothing is done.
    pub fn repair(
        &self,
        plan: &RepairPlan,
        request: RepairRequest,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError> {
        let _primary = self.store.server().only_primary();
        let id = self.new_repair_id();
        let quarantine = format!("{QUARANTINE}, repair {id}");
        let Some(session) = plan.session else {
            return self.repair_store(wait, id, quarantine);
        };
        self.check_may_repair(plan)?;
        let reader = self.store.reader(session)?;
        let lease = self.store.hold(&reader, wait)?;
        let done = self.repair_held(&reader, lease, plan, request, (&id, wait));
        self.store.let_go(lease);
        done?;
        let after = RepairAftermath::Session(Box::new(self.examine(session)?));
        Ok(FinishedRepair { id, quarantine, after, undoable: false })
    }

    /// Refuses users who may not do what is planned, before anything is changed.
    fn check_may_repair(&self, plan: &RepairPlan) -> Result<(), StoreError> {
        let mut needed = Vec::new();
        for action in &plan.actions {
            match action {
                RepairAction::SetAside { .. } | RepairAction::Finish { .. } => {
                    needed.extend(TO_SET_ASIDE);
                }
                RepairAction::NameLost { events, objects } => {
                    needed.extend(TO_SET_ASIDE.iter().filter(|_| !events.is_empty()));
                    needed.extend(TO_NAME_OBJECTS.iter().filter(|_| !objects.is_empty()));
                }
                _ => {}
            }
        }
        self.store.check_privileges("repair", needed)
    }

    fn repair_held(
        &self,
        reader: &PostgresReader,
        lease: Lease,
        plan: &RepairPlan,
        request: RepairRequest,
        (id, wait): (&str, Duration),
    ) -> Result<(), StoreError> {
        let session = reader.session;
        let damaged = |reason: &str| StoreError::Damaged {
            place: format!("session {session}"),
            reason: reason.to_owned(),
        };
        let rows = self.examine_rows(session, LeaseOwnership::Ours)?;
        let now = self.plan(&rows.examination, request)?;
        // Whether its writer died was determined before the lease was taken.
        let lasting = |plan: &RepairPlan| -> Vec<RepairAction> {
            let actions = plan.actions.iter().filter(|action| **action != RepairAction::Interrupt);
            actions.cloned().collect()
        };
        if lasting(&now) != lasting(plan) {
            return Err(damaged("it changed since the repair was planned"));
        }
        let facts = &rows.examination.facts;
        let Some(state) = facts.state.clone() else {
            return Err(damaged("the events that it shares cannot be read"));
        };
        if !facts.lost_objects.is_empty() {
            // Whoever remembers that these are stored stores them again.
            let changed = self.store.collector().change_mark(wait);
            changed.map_err(|error| self.store_trouble(Arc::new(error)))?;
        }
        let ExaminedRows { examination, unreadable, unfinished, reached, sum } = rows;
        let is_derived = |action: &RepairAction| matches!(action, RepairAction::MakeAnew { .. });
        let named: Vec<Seq> =
            examination.facts.lost.iter().chain(&unfinished).map(|(_, last)| *last).collect();
        let changes_rows =
            !unreadable.is_empty() || !named.is_empty() || plan.actions.iter().any(is_derived);
        let events = RepairEvents::of(plan, &examination);
        if let Some(recovery) = events.recovery(id, examination.facts.lost.clone()) {
            let pages = StatePageLayout::default();
            let end = StateAtEnd { state, pages, seq: reached, sum };
            let opened = self.store.writer_at(reader.clone(), lease, end)?;
            let lease = opened.lease();
            opened.note_recovered(&recovery)?;
            // A rewind reads what is before it.
            if changes_rows {
                self.set_aside(reader, lease, (&unreadable, &named, id))?;
            }
            let open = || {
                let examined = self.examine_rows(session, LeaseOwnership::Ours)?;
                Ok(examined.examination.facts.closing)
            };
            events.append(&opened, &open)?;
            return opened.close();
        }
        if changes_rows {
            self.set_aside(reader, lease, (&unreadable, &named, id))?;
        }
        Ok(())
    }

    /// Moves rows to `quarantine`, and drops what is derived from the session.
    fn set_aside(
        &self,
        reader: &PostgresReader,
        lease: Lease,
        (unreadable, named, id): (&[Seq], &[Seq], &str),
    ) -> Result<(), StoreError> {
        let family = family_of(self.store, lease.sid)?;
        let family: Arc<Vec<i64>> = Arc::new(family.into_iter().map(|(_, sid)| sid).collect());
        let places = |seqs: &[Seq]| seqs.iter().map(|seq| place(seq.0)).collect::<Vec<i64>>();
        let rows = Arc::new((places(unreadable), places(named)));
        let (id, session): (Arc<str>, SessionId) = (id.into(), reader.session);
        let server = self.store.server().clone();
        self.store.server().block(async move {
            let ask = server.ask_much("repair a session of", |client| {
                let (rows, family, id) = (rows.clone(), family.clone(), id.clone());
                Box::pin(
                    async move { move_rows(client, (session, lease), &rows, &family, &id).await },
                )
            });
            ask.await
        })
    }

    /// Records that a person has looked at what a repair left: the session no longer requires
    /// validation.
    pub fn accept(&self, session: SessionId, wait: Duration) -> Result<(), StoreError> {
        let writer = self.store.writer(session, wait)?;
        let strategy = "accept".to_owned();
        writer.note_recovered(&Recovery { strategy, accepted: true, ..Recovery::default() })?;
        writer.close()
    }

    fn repair_store(
        &self,
        wait: Duration,
        id: String,
        quarantine: String,
    ) -> Result<FinishedRepair, StoreError> {
        let finished = self.store.eraser().finish(wait);
        let (_, outcome) = finished.map_err(|error| self.store_trouble(Arc::new(error)))?;
        let left = self.examine_store()?;
        if let (Some(note), false) = (outcome.notes.first(), left.is_empty()) {
            return Err(self.store_trouble(Arc::new(std::io::Error::other(note.clone()))));
        }
        Ok(FinishedRepair { id, quarantine, after: RepairAftermath::Store(left), undoable: false })
    }

    fn store_trouble(&self, source: Arc<dyn std::error::Error + Send + Sync>) -> StoreError {
        StoreError::Storage { action: "repair", place: self.store.place(), source }
    }

    fn new_repair_id(&self) -> String {
        let env = &self.store.options().env;
        let mut random = [0; 4];
        (env.random)(&mut random);
        new_repair_id((env.now)(), random)
    }
}

async fn move_rows(
    mut client: Object,
    (session, lease): (SessionId, Lease),
    (rows, named): &(Vec<i64>, Vec<i64>),
    family: &[i64],
    id: &str,
) -> Result<(), ServerError> {
    let transaction = client.transaction().await?;
    let sql = "SELECT 1 FROM lease WHERE sid = $1 AND epoch = $2 FOR UPDATE";
    let epoch = lease_epoch_number(lease.epoch);
    if transaction.query_opt(sql, &[&lease.sid, &epoch]).await?.is_none() {
        let by = "another writer".to_owned();
        return Err(StoreError::TakenOver { session, by }.into());
    }
    let sql = "WITH gone AS (
            DELETE FROM event WHERE sid = $1 AND seq = ANY($2) RETURNING seq, sum, line)
        INSERT INTO quarantine (sid, seq, repair, sum, line)
        SELECT $1, seq, $3, sum, line FROM gone";
    if !rows.is_empty() {
        transaction.execute(sql, &[&lease.sid, rows, &id]).await?;
    }
    // An entry for each range that was named says that the rest was done too.
    let sql = "INSERT INTO quarantine (sid, seq, repair, sum, line)
        SELECT $1, given.seq, $3, ''::bytea, ''::bytea FROM unnest($2::bigint[]) AS given (seq)
        ON CONFLICT DO NOTHING";
    if !named.is_empty() {
        transaction.execute(sql, &[&lease.sid, named, &id]).await?;
    }
    forget_derived_rows(&transaction, &[lease.sid]).await?;
    // What is derived from forks was made of these events too. A writer that has one open holds its
    // state, and will write it back.
    for table in ["snapshot", "page"] {
        let sql = format!(
            "DELETE FROM {table} WHERE sid = ANY($1) AND sid NOT IN
                (SELECT sid FROM lease WHERE until > clock_timestamp())"
        );
        transaction.execute(&sql, &[&family]).await?;
    }
    transaction.commit().await?;
    Ok(())
}
