// SPDX-License-Identifier: GPL-2.0-only
//! Writes what the manual pages (../../../docs) have from the command line, and completions for
//! shells: `cargo run --example manual DIRECTORY`.
//!
//! Of each page fusion-COMMAND the beginning, to its synopsis; of each command what its arguments
//! are. In reStructuredText, as the pages are, which include it, and from which manual pages are
//! made as well as HTML.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use fusion::cli::Cli;

/// A synopsis with more options than these does not name them.
const FEW: usize = 4;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1).unwrap_or_else(|| OsString::from("."));
    let directory = Path::new(&directory);
    let mut fusion = Cli::command();
    fusion.build();
    let write = |name: &str, text: &str| fs::write(directory.join(format!("{name}.rst")), text);

    write(
        "fusion",
        &(title("fusion", &fusion) + "| **fusion** [**--json**] *COMMAND* ...\n"),
    )?;
    write("commands", &commands(&fusion))?;
    for command in below(&fusion) {
        let name = command.get_name();
        let page = format!("fusion-{name}");
        let mut head = title(&page, command);
        if command.has_subcommands() {
            for leaf in below(command) {
                let path = format!("{name} {}", leaf.get_name());
                head += &synopsis(&path, leaf);
                let about = format!("{}.\n\n{}", about(leaf), arguments(leaf));
                write(&path.replace(' ', "-"), &(heading(&path, '-') + &about))?;
            }
        } else {
            head += &synopsis(name, command);
            write(name, &(heading("OPTIONS", '=') + &arguments(command)))?;
        }
        write(&page, &head)?;
    }

    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut Cli::command(), "fusion", directory)?;
    }
    Ok(())
}

fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
}

fn heading(text: &str, line: char) -> String {
    format!("{text}\n{}\n\n", line.to_string().repeat(text.len()))
}

/// Up to the synopsis. A page is about what the help begins with.
fn title(page: &str, command: &Command) -> String {
    let about = about(command);
    let about = about.split(';').next().unwrap_or_default();
    let (first, rest) = about.split_at(1);
    let about = first.to_lowercase() + rest;
    let (double, single) = ("=".repeat(page.len()), "-".repeat(about.len()));
    format!(
        "{double}\n{page}\n{double}\n\n{single}\n{about}\n{single}\n\n\
         :Manual section: 8\n:Manual group: System administration\n\n{}",
        heading("SYNOPSIS", '=')
    )
}

fn synopsis(path: &str, command: &Command) -> String {
    let mut line = format!("| **fusion {path}**");
    let (required, optional): (Vec<&Arg>, Vec<&Arg>) =
        options(command).partition(|option| option.is_required_set());
    for option in required {
        line += &format!(" {}", call(option));
    }
    if optional.len() > FEW {
        line += " [*OPTION*...]";
    } else {
        for option in optional {
            line += &format!(" [{}]", call(option));
        }
    }
    for argument in command.get_positionals() {
        let many = if many(argument) { "..." } else { "" };
        line += &if argument.is_required_set() {
            format!(" *{}*{many}", value(argument))
        } else {
            format!(" [*{}*{many}]", value(argument))
        };
    }
    line + "\n"
}

/// An option as it is given, by its short name if it has one.
fn call(option: &Arg) -> String {
    let name = match (option.get_short(), option.get_long()) {
        (Some(short), _) => format!("**-{short}**"),
        (None, long) => format!("**--{}**", long.unwrap_or_default()),
    };
    if takes_value(option) {
        name + &format!(" *{}*", value(option))
    } else {
        name
    }
}

/// All groups and commands, and the options that all of them have.
fn commands(fusion: &Command) -> String {
    let mut text = heading("COMMANDS", '=');
    for command in below(fusion) {
        writeln!(
            text,
            "**fusion-{}**\\ (8)\n  {}",
            command.get_name(),
            about(command)
        )
        .unwrap();
    }
    text += "\n";
    text += &heading("OPTIONS", '=');
    for option in fusion.get_opts().chain(fusion.get_arguments()) {
        if !option.is_positional() && !text.contains(&spelled(option)) {
            text += &described(&spelled(option), option);
        }
    }
    text
}

/// What a command's arguments and options are.
fn arguments(command: &Command) -> String {
    let mut text = String::new();
    for argument in command.get_positionals() {
        let many = if many(argument) { "..." } else { "" };
        text += &described(&format!("*{}*{many}", value(argument)), argument);
    }
    // Else the list of options would be part of that of arguments.
    text += "\n";
    for option in options(command) {
        text += &described(&spelled(option), option);
    }
    text += "\n";
    if let Some(more) = command.get_after_long_help() {
        text += &format!("{more}\n\n");
    }
    text
}

/// Those of its own.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let everywhere = ["help", "version"].contains(&argument.get_id().as_str());
        !argument.is_positional() && !argument.is_global_set() && !everywhere
    })
}

/// As in a list of options.
fn spelled(option: &Arg) -> String {
    let value = if takes_value(option) {
        format!(" {}", value(option))
    } else {
        String::new()
    };
    let mut names = Vec::new();
    if let Some(short) = option.get_short() {
        names.push(format!("-{short}{value}"));
    }
    if let Some(long) = option.get_long() {
        names.push(format!("--{long}{value}"));
    }
    names.join(", ")
}

fn described(what: &str, argument: &Arg) -> String {
    let mut help = marked(
        &argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default(),
    );
    let default: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes_value(argument) && !default.is_empty() {
        help += &format!(" [default: {}]", default.join(" "));
    }
    let possible: Vec<_> = argument
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    if takes_value(argument) && !possible.is_empty() {
        help += &format!(" [possible values: {}]", possible.join(", "));
    }
    format!("{what}\n  {help}\n")
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn many(argument: &Arg) -> bool {
    argument
        .get_num_args()
        .is_some_and(|number| number.max_values() > 1)
}

fn value(argument: &Arg) -> String {
    argument
        .get_value_names()
        .map(|names| names.join(" "))
        .unwrap_or_default()
}

fn about(command: &Command) -> String {
    marked(
        &command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default(),
    )
}

/// Plain text, marked up: options are bold, and nothing else means anything.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    for (place, word) in text.split(' ').enumerate() {
        if place > 0 {
            marked.push(' ');
        }
        let escaped = word.chars().fold(String::new(), |mut escaped, char| {
            if "\\*`|_".contains(char) {
                escaped.push('\\');
            }
            escaped.push(char);
            escaped
        });
        let name = escaped.trim_end_matches([',', ':', ';', '.', ']']);
        let rest = &escaped[name.len()..];
        if name.starts_with("--") && name.len() > 2 {
            write!(marked, "**{name}**{rest}").unwrap();
        } else {
            marked += &escaped;
        }
    }
    marked
}
