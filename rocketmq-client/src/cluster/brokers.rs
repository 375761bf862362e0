//! The brokers that the known routes name. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::route::{Broker, MASTER_ID, Route};

/// Brokers by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Brokers(BTreeMap<Arc<str>, Broker>);

impl Brokers {
    /// The brokers of `routes`. Where routes disagree about a broker, the later one counts.
    pub(super) fn of<'a>(routes: impl IntoIterator<Item = &'a Route>) -> Self {
        let brokers = routes.into_iter().flat_map(Route::brokers);
        Self(brokers.map(|broker| (Arc::clone(&broker.name), broker.clone())).collect())
    }

    /// The broker of that name.
    pub(crate) fn broker(&self, name: &str) -> Option<&Broker> {
        self.0.get(name)
    }

    /// The name of the broker that has a replica at an address.
    pub(super) fn name_at(&self, address: &str) -> Option<Arc<str>> {
        let named = |broker: &&Broker| broker.addresses.values().any(|known| &**known == address);
        self.0.values().find(named).map(|broker| Arc::clone(&broker.name))
    }

    /// Addresses of all masters, and of slaves too if asked for, each once.
    pub(crate) fn addresses(&self, with_slaves: bool) -> BTreeSet<Arc<str>> {
        let all = self.0.values().flat_map(|broker| &broker.addresses);
        all.filter(|&(&id, _)| with_slaves || id == MASTER_ID).map(|(_, address)| Arc::clone(address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_routes_count_and_addresses_come_once() {
        let route = |json: &str| Route::parse(&"t".into(), json.as_bytes()).expect("a route");
        let old = route(r#"{"brokerDatas":[{"brokerName":"a","brokerAddrs":{0:"a:1",1:"s:1"}}]}"#);
        let new = route(
            r#"{"brokerDatas":[{"brokerName":"a","brokerAddrs":{0:"a:2",1:"s:1"}},
                {"brokerName":"b","brokerAddrs":{0:"b:1",2:"s:1"}}]}"#,
        );
        let brokers = Brokers::of([&old, &new]);
        let addresses = |with_slaves| brokers.addresses(with_slaves).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!((addresses(false).as_str(), addresses(true).as_str()), ("a:2 b:1", "a:2 b:1 s:1"));
        let name = |address| brokers.name_at(address);
        assert_eq!((name("b:1").as_deref(), name("a:1")), (Some("b"), None));
        assert!(brokers.broker("a").is_some() && brokers.broker("c").is_none());
    }
}
