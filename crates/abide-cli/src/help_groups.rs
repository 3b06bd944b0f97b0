//! The commands in groups, as the help of `abide` lists them. Every command that is not hidden is in
//! one group; a test holds the groups against the commands.

use clap::Command;

/// A heading and the commands under it.
struct HelpGroup {
    heading: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [HelpGroup; 6] = [
    HelpGroup {
        heading: "Start",
        commands: &["enable", "disable", "pause", "run", "resume", "demo"],
    },
    HelpGroup {
        heading: "Look",
        commands: &["ls", "search", "show", "status", "usage", "tail", "export", "share", "rename"],
    },
    HelpGroup {
        heading: "Go back",
        commands: &["save", "saves", "diff", "rewind", "undo", "redo", "fork"],
    },
    HelpGroup { heading: "Plan", commands: &["tasks", "plan"] },
    HelpGroup {
        heading: "Programs",
        commands: &["record", "new", "context", "compact", "state", "schema", "acp"],
    },
    HelpGroup {
        heading: "Store",
        commands: &[
            "init",
            "doctor",
            "cleanup",
            "erase",
            "secrets",
            "copy",
            "import",
            "store",
            "project",
            "completions",
            "man",
            "help",
        ],
    },
];

/// The help of `abide`: its commands by group, then the options that every command has.
///
/// The command must have been built, so that each command knows what it is about.
pub(crate) fn with_grouped_help(command: Command) -> Command {
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for group in &GROUPS {
        template.push_str(&format!("\n{}:\n", group.heading));
        for name in group.commands {
            let Some(about) = command.find_subcommand(name).and_then(Command::get_about) else {
                continue;
            };
            // A brace would be taken for a part of the template.
            let about = about.to_string().replace(['{', '}'], "");
            template.push_str(&format!("  {name:<11} {about}\n"));
        }
    }
    template.push_str("\nOptions of every command:\n{options}{after-help}");
    command.help_template(template)
}

/// What the short help (`-h`) has in place of the options that every command has.
const SHORT_OPTIONS: &str =
    "Also --store, --all-projects, --take-over and --wait: `abide help options`";

/// The same command, whose short help names the options that every command has in one line.
pub(crate) fn with_short_options(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let gap = if examples.is_empty() { "" } else { "\n\n" };
    let short = format!("{examples}{gap}{SHORT_OPTIONS}");
    command.after_help(short).after_long_help(examples).mut_subcommands(with_short_options)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = crate::AbideArgs::command();
        command.build();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<_> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        shown.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn what_a_command_does_fits_on_a_line() {
        let mut command = crate::AbideArgs::command();
        command.build();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((1..=72).contains(&about.chars().count()), "{}: {about}", command.get_name());
        }
    }
}
