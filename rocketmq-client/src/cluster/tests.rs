//! Clients, their name servers and their heartbeats against scripted servers on manual time.

mod golden_routes;
mod heartbeats;
mod name_servers;
mod routes;
