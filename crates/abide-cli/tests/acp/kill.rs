//! The proxy, and sometimes the agent, killed at random moments, over and over: what the client was
//! told before is there after the next load, in order and once.

use std::time::Duration;

use abide_testkit::{AcpClient, FaultRun, Random};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::lab::{AcpLab, children};
use super::story::{Told, conversation, story};

/// What a client was told of a session, as far as it must last.
#[derive(Default)]
struct Ledger {
    certain: Vec<Told>,
    /// The updates of the turn that runs.
    turn: Vec<Value>,
    prompt: Option<String>,
}

impl Ledger {
    fn begin(&mut self, prompt: String) {
        self.prompt = Some(prompt);
        self.turn.clear();
    }

    fn hear(&mut self, message: &Value) {
        if message["method"] == "session/update" {
            self.turn.push(message["params"]["update"].clone());
        }
    }

    /// The turn was answered, with a result or an error, or broken off.
    fn end(&mut self, answered: bool) {
        let mut told = story(&self.turn);
        let streaming = matches!(told.last(), Some(Told::Agent(_) | Told::Thought(_)));
        if streaming && !answered {
            // Its block had not ended: it is recorded when it does.
            told.pop();
        }
        if let Some(prompt) = self.prompt.take()
            && (answered || !self.turn.is_empty())
        {
            // The agent heard it, so it was durable.
            self.certain.push(Told::User(prompt));
            told.retain(|told| !matches!(told, Told::Other(_)));
            self.certain.extend(told);
        }
        self.turn.clear();
    }

    #[track_caller]
    fn check(&self, replayed: &[Told], round: usize) {
        let mut rest = replayed.iter();
        for told in &self.certain {
            assert!(
                rest.any(|replayed| replayed == told),
                "round {round}: {told:?} is missing or not in its place\ntold: {:#?}\nreplayed: {replayed:#?}",
                self.certain,
            );
        }
        let mut sorted = replayed.to_vec();
        sorted.sort();
        for pair in sorted.windows(2) {
            assert_ne!(pair[0], pair[1], "round {round}: it comes twice");
        }
    }
}

/// Reads on until the prompt is answered, or `lines` have come.
fn read(client: &mut AcpClient, ledger: &mut Ledger, id: u64, lines: u64) -> Option<bool> {
    for _ in 0..lines {
        let line = client.next()?;
        let message: Value = serde_json::from_str(&line).unwrap();
        ledger.hear(&message);
        if message["id"] == id && message.get("method").is_none() {
            return Some(message.get("result").is_some());
        }
    }
    None
}

fn kills(agent: &[&str], lab: &AcpLab, number: u64) {
    let count = FaultRun::from_env().len(5, 100);
    let mut random = Random::new(FaultRun::from_env().seed() ^ number);
    let mut ledger = Ledger::default();
    let mut session = None;
    let (mut proxies, mut agents, mut prompts) = (0, 0, 0_u64);
    let mut round = 0;
    while proxies < count {
        round += 1;
        let mut client = lab.proxy(agent);
        client.initialize();
        let session = match &session {
            Some(session) => {
                let session: &String = session;
                let loaded = lab.load(&mut client, session);
                ledger.check(&conversation(&loaded), round);
                session.clone()
            }
            None => session.insert(lab.another(&mut client)).clone(),
        };
        loop {
            prompts += 1;
            let pause = random.below(4);
            let prompt = format!(
                "say a{prompts}; tool b{prompts}; sleep {pause}; think c{prompts}; say d{prompts}; \
                 tool e{prompts}; say f{prompts}"
            );
            ledger.begin(prompt.clone());
            let id = client.prompt(&session, &prompt);
            // A whole turn has twelve lines.
            let lines = random.below(18);
            match read(&mut client, &mut ledger, id, lines) {
                Some(fine) => {
                    assert!(fine || agents > 0, "a prompt failed, and nobody was killed");
                    ledger.end(true);
                }
                None => {
                    std::thread::sleep(Duration::from_micros(random.below(3000)));
                    let agent = children(client.process(), "stub-agent").first().copied();
                    if let (true, Some(agent)) = (random.once_in(4), agent) {
                        agents += 1;
                        let agent = Pid::from_raw(agent.cast_signed()).unwrap();
                        let _ = kill_process(agent, Signal::KILL);
                        // The proxy lives: the prompt is answered, by whomever.
                        let _ = read(&mut client, &mut ledger, id, u64::MAX)
                            .expect("the prompt is answered");
                        ledger.end(true);
                        continue;
                    }
                    let heard = client.received.len();
                    client.kill();
                    for line in &client.received[heard..] {
                        // The last line may be half a line.
                        if let Ok(message) = serde_json::from_str(line) {
                            ledger.hear(&message);
                        }
                    }
                    ledger.end(false);
                    proxies += 1;
                    break;
                }
            }
        }
    }
    let mut client = lab.proxy(agent);
    client.initialize();
    let loaded = lab.load(&mut client, session.as_ref().unwrap());
    ledger.check(&conversation(&loaded), round + 1);
    let told = ledger.certain.len();
    assert!(told > 0, "nothing was ever told");
    drop(client);
    lab.healthy();
    eprintln!(
        "{proxies} proxies and {agents} agents killed, {prompts} prompts, {told} things told"
    );
}

#[test]
fn what_was_told_outlives_every_kill_where_the_agent_knows_nothing() {
    kills(&[], &AcpLab::new(), 1);
}

#[test]
fn what_was_told_outlives_every_kill_where_the_agent_can_load() {
    let lab = AcpLab::new();
    let state = lab.beside("state.json");
    kills(&["--load", "--state", &state], &lab, 2);
}
