//! The broker as a command: one process with a name server and a broker, until a signal ends it; and tools for its files.

mod arguments;
mod config_file;
mod serve;
mod signals;
mod tools;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

/// Bad arguments.
const USAGE: u8 = 2;

/// An exit code, and why.
type Failure = (u8, String);

fn main() -> ExitCode {
    // Ends the process with code 2 if the arguments are bad, with 0 for --help and --version.
    let arguments = Arguments::parse();
    let result = match arguments.command {
        None => serve::run(arguments.serve),
        Some(Command::Dump { directory, topic, follow }) => tools::dump(&directory, topic.as_deref(), follow),
        Some(Command::Verify { directory }) => tools::verify(&directory),
        Some(Command::Load { file, store, compatibility }) => tools::load(&file, store, compatibility),
        Some(Command::Completions { shell }) => {
            clap_complete::generate(shell, &mut Arguments::command(), "rocketmq-mock-broker", &mut std::io::stdout());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}
