//! What a stubbed agent is able to do, from its command line.

use std::path::PathBuf;

/// How a stubbed agent is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StubOptions {
    /// It can load sessions.
    pub load: bool,
    /// It can resume sessions.
    pub resume: bool,
    /// It can list its sessions.
    pub list: bool,
    /// It can close sessions.
    pub close: bool,
    /// It can delete sessions.
    pub delete: bool,
    /// It can fork sessions.
    pub fork: bool,
    /// Its session ids are "1", "2" …, anew in each process.
    pub count_ids: bool,
    /// It reads everything and answers nothing.
    pub mute: bool,
    /// Of what the state file holds at the start it lacks so many messages, the last ones.
    pub forget: usize,
    /// Where sessions are kept, so that a restarted agent knows them.
    pub state: Option<PathBuf>,
    /// Where every line that it receives is written, byte for byte.
    pub log: Option<PathBuf>,
}

impl StubOptions {
    /// Reads a command line.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--load" => options.load = true,
                "--resume" => options.resume = true,
                "--list" => options.list = true,
                "--close" => options.close = true,
                "--delete" => options.delete = true,
                "--fork" => options.fork = true,
                "--count-ids" => options.count_ids = true,
                "--mute" => options.mute = true,
                "--state" => options.state = Some(value()?.into()),
                "--log" => options.log = Some(value()?.into()),
                "--forget" => {
                    let count = value()?;
                    options.forget =
                        count.parse().map_err(|_| format!("`{count}` is no number"))?;
                }
                _ => return Err(format!("there is no option `{argument}`")),
            }
        }
        Ok(options)
    }
}
