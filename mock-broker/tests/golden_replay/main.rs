//! Sends the requests that were recorded from Apache's clients to our broker, in the behaviour of the recorded server's
//! version, and compares its answers with those of Apache's servers.

mod administration;
mod comparison;
mod differences;
mod preparation;
mod recording;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use differences::DIFFERENCES;

/// The recordings that are replayed.
const LABELS: [&str; 6] = ["4.4.0", "4.9.7", "4.9.7-binary", "5.3.3", "5.3.3-binary", "5.3.3-go"];

/// The requests that are served. May be extended, never thinned.
const SERVED: &[i32] = &[
    10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46, 60, 61,
    100, 101, 102, 103, 104, 105, 106, 200, 201, 202, 203, 204, 205, 206, 207, 208, 215, 216, 219, 222, 223, 224, 225,
    300, 303, 304, 305, 306, 307, 308, 309, 310, 311, 314, 315, 316, 317, 318, 319, 320, 321, 322, 325, 327, 328, 351,
    361, 370,
];

/// A code that nobody serves, and that must be answered all the same.
const UNKNOWN: i32 = 9999;

#[test]
fn our_answers_are_those_of_apache_s_servers() {
    let mut unexpected = Vec::new();
    let mut used = vec![0; DIFFERENCES.len()];
    let mut replayed = BTreeMap::<i32, usize>::new();
    for exchange in LABELS.into_iter().flat_map(recording::exchanges) {
        let code = exchange.request.code;
        if !SERVED.contains(&code) && code != UNKNOWN {
            continue;
        }
        *replayed.entry(code).or_default() += 1;
        let expected = DIFFERENCES.iter().position(|difference| (difference.is_it)(&exchange));
        let ours = preparation::replay(&exchange);
        let found = comparison::differences(&exchange.answer, &ours);
        match (expected, found.is_empty()) {
            (None, true) => {}
            (Some(index), false) => used[index] += 1,
            (None, false) => {
                unexpected.push(format!("{} ({}): {}", exchange.describe(), exchange.scenario, found.join("; ")));
            }
            (Some(index), true) => {
                let reason = DIFFERENCES[index].reason;
                unexpected.push(format!("{}: is no difference any more: {reason}", exchange.describe()));
            }
        }
    }
    for (difference, count) in DIFFERENCES.iter().zip(&used) {
        if *count == 0 {
            unexpected.push(format!("no exchange differs any more because: {}", difference.reason));
        }
    }
    for code in SERVED {
        assert!(replayed.contains_key(code), "no recorded exchange of code {code}");
    }
    let total: usize = replayed.values().sum();
    assert!(unexpected.is_empty(), "{} of {total} exchanges:\n{}", unexpected.len(), unexpected.join("\n"));
    println!("{total} exchanges, {} differ for a reason", used.iter().sum::<usize>());
}
