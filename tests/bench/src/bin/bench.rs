//! Measures the goals and prints one line for each case: `bench [P1 P2 ...]`. Details go to standard error.
//!
//! Ends with 1 when a goal is missed or could not be measured, with 2 when there is no such goal.
//!
//! With `BENCH_RECORD=1` the counts of instructions become those that later ones are compared with.
//!
//! `bench stub`, `raw`, `client`, `consume`, `decode` and `delayed`, each with arguments of its own, are what it runs.

use std::{
    error::Error,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use rocketmq_bench::{
    arguments::Arguments,
    consuming, delayed,
    goals::{GROUPS, Group},
    programs::Programs,
    raw,
    recorded::Recorded,
    stub, workload,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = || Arguments::parse(&words[1..]);
    match words.first().map(String::as_str) {
        Some("stub") => stub::run()?,
        Some("raw") => raw::run(&arguments())?,
        Some("client") => workload::run(&arguments(), None)?,
        Some("consume") => consuming::run(&arguments())?,
        Some("decode") => consuming::decode(&arguments())?,
        Some("delayed") => delayed::run(&arguments())?,
        _ => return Ok(measure(&words)),
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(asked: &[String]) -> ExitCode {
    if let Some(unknown) = asked.iter().find(|id| !GROUPS.iter().any(|group| group.id == id.as_str())) {
        let known: Vec<_> = GROUPS.iter().map(|group| group.id).collect();
        eprintln!("no goal `{unknown}`; there are {}", known.join(" "));
        return ExitCode::from(2);
    }
    let programs = match Programs::locate() {
        Ok(programs) => programs,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = GROUPS.iter().filter(|group| asked.is_empty() || asked.iter().any(|id| id == group.id));
    let mut recorded = Recorded::read();
    let missed: usize = chosen.map(|group| report(group, &programs, &mut recorded)).sum();
    if std::env::var_os("BENCH_RECORD").is_some()
        && let Err(error) = recorded.write()
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures one group, prints its lines and returns how many are no success.
fn report(group: &Group, programs: &Programs, recorded: &mut Recorded) -> usize {
    eprintln!("{}", group.id);
    // The harness of Apache's servers panics with its reason when one does not start.
    let measured = panic::catch_unwind(AssertUnwindSafe(|| (group.measure)(programs)))
        .unwrap_or_else(|payload| Err(reason(payload.as_ref())));
    let values = match measured {
        Ok(values) => values.into_iter().map(Ok).collect(),
        Err(reason) => vec![Err(reason); group.cases.len()],
    };
    let cases = || group.cases.iter().zip(&values);
    let missed = cases().filter(|(case, value)| !case.print(value)).count();
    let counted = cases().filter(|(case, _)| case.unit == "instructions");
    missed + counted.filter(|(case, value)| !recorded.compare(case.id, value)).count()
}

fn reason(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
