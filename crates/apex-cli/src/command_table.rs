//! The tables of commands in README.md and docs/guide.md, as `cargo xtask docs` asks for them.
//!
//! They are made from the same description as `--help`, so that no page names an option that is not there.

use crate::arguments::{Arguments, TableLength};
use clap::{Arg, ArgAction, Command, CommandFactory};

/// Pages of docs/ that say more of a command.
const MORE: &[(&str, &[&str])] = &[
    ("apex run", &["guide.md#faster-launches", "scheduling.md", "tuning.md", "advice.md"]),
    ("apex daemon", &["scheduling.md"]),
    ("apex report", &["advice.md"]),
    ("apex graph", &["guide.md#faster-launches"]),
    ("apex dashboard", &["dashboard.md"]),
    ("apex train", &["../models/models.md"]),
    ("apex train collect", &["../models/models.md"]),
    ("apex train fit", &["../models/models.md"]),
    ("apex train foresee", &["guide.md#faster-launches"]),
    ("apex predict", &["../models/models.md"]),
    ("apex history", &["guide.md#what-a-prediction-needs"]),
    ("apex history list", &["guide.md#what-a-prediction-needs"]),
    ("apex history export", &["guide.md#what-a-prediction-needs"]),
    ("apex history import", &["guide.md#what-a-prediction-needs"]),
    ("apex history forget", &["guide.md#what-a-prediction-needs"]),
    ("apex sim", &["policies.md"]),
    ("apex tune", &["tuning.md"]),
    ("apex lower", &["compatibility.md"]),
    ("apex bench", &["measured.md"]),
    ("apex specialise", &["specialise.md"]),
    ("apex bench launch", &["guide.md#faster-launches"]),
    ("apex bench memory", &["guide.md#faster-launches"]),
    ("apex bench exec", &["executor.md"]),
    ("apex bench zoo", &["zoo.md"]),
    ("apex bench predict", &["../models/models.md"]),
    ("apex bench sched", &["scheduling.md#comparing"]),
    ("apex bench advice", &["advice.md"]),
];

/// In full for the guide: one row for each command. For the README: a row for each verb, with what must be given.
pub(crate) fn table(length: TableLength) -> String {
    let mut table = String::from("| command | what it does | more |\n|---|---|---|\n");
    let commands = match length {
        TableLength::Short => verbs(),
        TableLength::Long => commands(),
    };
    for command in commands {
        let words = match length {
            TableLength::Short => words(&command, Arg::is_required_set),
            TableLength::Long => words(&command, |_| true),
        };
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let line = format!("| `{words}` | {} | {} |\n", escaped(&about), links(&command, length));
        table.push_str(&line);
    }
    table
}

/// The whole description, with every command's whole name.
fn built() -> Command {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    root
}

fn shown(command: &Command) -> Vec<&Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set()).collect()
}

/// The words that may follow `apex`.
fn verbs() -> Vec<Command> {
    shown(&built()).into_iter().cloned().collect()
}

/// Every command that users see and that does something by itself.
fn commands() -> Vec<Command> {
    let root = built();
    let mut found = Vec::new();
    let mut open: Vec<&Command> = vec![&root];
    while let Some(command) = open.pop() {
        if !command.is_subcommand_required_set() {
            found.push(command.clone());
        }
        open.extend(shown(command).into_iter().rev());
    }
    found
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// The command with those of its arguments that are wanted, the program's own last.
fn words(command: &Command, wanted: impl Fn(&Arg) -> bool) -> String {
    let is_own = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
    let is_shown = |arg: &&Arg| !arg.is_hide_set() && (wanted(arg) || arg.is_positional());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(is_own)
        .filter(is_shown)
        .partition(|arg| arg.is_positional());
    let mut words = vec![name(command).to_owned()];
    if command.is_subcommand_required_set() {
        let names: Vec<&str> = shown(command).into_iter().map(Command::get_name).collect();
        words.push(names.join("|"));
    }
    words.extend(options.into_iter().chain(positional).map(word));
    escaped(&words.join(" "))
}

/// One argument as it is typed.
fn word(arg: &Arg) -> String {
    let mut value = value(arg);
    let many = matches!(arg.get_action(), ArgAction::Append);
    if many && (arg.is_positional() || arg.get_value_delimiter().is_none()) {
        value.push('…');
    }
    let word = if arg.is_positional() {
        // What follows is the program's own.
        if arg.is_trailing_var_arg_set() { "-- CMD".into() } else { value }
    } else {
        let flag = match (arg.get_short(), arg.get_long()) {
            (Some(short), _) => format!("-{short}"),
            (None, long) => format!("--{}", long.unwrap_or_default()),
        };
        match arg.get_num_args() {
            _ if !arg.get_action().takes_values() => flag,
            Some(count) if count.min_values() == 0 && arg.is_require_equals_set() => {
                format!("{flag}[={value}]")
            }
            Some(count) if count.min_values() == 0 => format!("{flag} [{value}]"),
            _ => format!("{flag} {value}"),
        }
    };
    if arg.is_required_set() { word } else { format!("[{word}]") }
}

/// What stands for the value: the words to choose from, or its name.
fn value(arg: &Arg) -> String {
    let choices = arg.get_possible_values();
    // Their names are the help's: a long list would hide the command.
    if arg.get_action().takes_values() && (1..=6).contains(&choices.len()) {
        return choices.iter().map(|choice| choice.get_name()).collect::<Vec<_>>().join("|");
    }
    let names = arg.get_value_names().unwrap_or_default();
    let name = names.first().map(|name| name.as_str().to_owned());
    name.unwrap_or_else(|| arg.get_id().as_str().to_uppercase())
}

fn links(command: &Command, length: TableLength) -> String {
    let pages = MORE.iter().find(|(known, _)| *known == name(command)).map(|(_, pages)| *pages);
    let link = |page: &&str| {
        let file = page.split('#').next().unwrap_or(page);
        let title = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".md");
        let from_root = page.strip_prefix("../").map_or(format!("docs/{page}"), str::to_owned);
        match length {
            TableLength::Short => format!("[{title}]({from_root})"),
            TableLength::Long => format!("[{title}]({page})"),
        }
    };
    pages.unwrap_or_default().iter().map(link).collect::<Vec<_>>().join(", ")
}

/// A cell of a table ends at a stroke.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::{MORE, commands, name, table, verbs};
    use crate::arguments::{Arguments, TableLength};
    use clap::Parser;
    use std::path::Path;

    #[test]
    fn every_command_is_there_and_no_hidden_one() {
        let names: Vec<String> = commands().iter().map(|it| name(it).to_owned()).collect();
        for wanted in
            ["apex run", "apex sessions", "apex sessions pin", "apex bench shim", "apex man"]
        {
            assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        }
        for hidden in
            ["apex", "apex bench", "apex mapped-driver", "apex bench shim-calls", "apex help"]
        {
            assert!(names.iter().all(|name| name != hidden), "{hidden}: {names:?}");
        }
    }

    #[test]
    fn a_page_is_of_a_command() {
        let all = commands().into_iter().chain(verbs());
        let names: Vec<String> = all.map(|it| name(&it).to_owned()).collect();
        for (command, _) in MORE {
            assert!(names.iter().any(|name| name == command), "{command}");
        }
    }

    #[test]
    fn arguments_are_shown_as_they_are_typed() {
        let long = table(TableLength::Long);
        for part in [
            "`apex run [-o DIR] [--device auto\\|soft\\|gpu]",
            "[--json[=FILE]] -- CMD`",
            "`apex check --baseline SESSION [--tolerance PERCENT] [--json] [SESSION]`",
            "`apex tune [-o FILE]",
            "[--only hint\\|compile\\|block…]",
            "`apex diff [--json] BEFORE AFTER`",
            "[scheduling](scheduling.md#comparing)",
        ] {
            assert!(long.contains(part), "{part} in\n{long}");
        }
        let short = table(TableLength::Short);
        for part in [
            "| `apex run -- CMD` |",
            "| `apex check --baseline SESSION [SESSION]` |",
            "| `apex train collect\\|fit\\|",
            "(docs/measured.md)",
        ] {
            assert!(short.contains(part), "{part} in\n{short}");
        }
    }

    /// Lines of fenced blocks that begin with apex, without comments and redirections; not those that show what may be
    /// left out, or that go on.
    fn shown_commands(page: &str) -> impl Iterator<Item = &str> {
        let blocks = page.split("\n```").skip(1).step_by(2);
        let lines = blocks.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
        let cut = |line: &'_ str| line.find(['#', '|', '>', '&']).unwrap_or(line.len());
        let is_whole = |line: &&str| line.starts_with("apex ") && !line.contains(['[', '…', '\\']);
        lines.filter(is_whole).map(move |line| line[..cut(line)].trim())
    }

    #[test]
    fn every_command_in_the_documents_is_understood() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = docs.chain([root.join("README.md"), root.join("models/models.md")]);
        let mut count = 0;
        for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
            for command in shown_commands(&std::fs::read_to_string(&page).unwrap()) {
                let parsed = Arguments::try_parse_from(command.split_whitespace());
                assert!(parsed.is_ok(), "{}: {command}\n{}", page.display(), parsed.unwrap_err());
                count += 1;
            }
        }
        assert!(count >= 10, "{count} commands are shown");
    }
}
