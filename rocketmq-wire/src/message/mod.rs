//! Messages as they are stored, batched, flagged and identified.
