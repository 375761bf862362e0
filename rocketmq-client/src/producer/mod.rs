//! Sending messages.

mod queue_choice;
