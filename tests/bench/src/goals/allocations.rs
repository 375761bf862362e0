//! Heap allocations of a send.

use super::Group;
use crate::{
    programs::{Load, Processors, Programs},
    report::{Case, Goal},
};

pub(super) const ALLOCATIONS: Group =
    Group { id: "P6", cases: &[Case { id: "P6", unit: "allocations", goal: Goal::AtMost(3.0) }], measure: allocations };

fn allocations(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let outcome = programs.client_allocations(&stub.name_server, &Load::new(32, 200_000)).run(Processors::Any)?;
    Ok(vec![outcome.figure("allocations")? / outcome.succeeded as f64])
}
