//! Settings of a transaction producer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::check::{self, TransactionChecker};
use super::{Shared, TransactionProducer};
use crate::cluster::{CheckQueue, Cluster};
use crate::error::{Error, ErrorKind, Result};
use crate::producer::ProducerBuilder;

/// Settings of a [`TransactionProducer`]; [`start`](Self::start) makes it.
#[derive(Debug)]
#[must_use = "`start` makes the producer"]
pub struct TransactionProducerBuilder<C> {
    producer: ProducerBuilder,
    checker: C,
    concurrency: usize,
    check_immunity: Option<Duration>,
}

impl<C: TransactionChecker> TransactionProducerBuilder<C> {
    pub(crate) fn new(cluster: Cluster, group: String, checker: C) -> Self {
        Self { producer: ProducerBuilder::new(cluster, group), checker, concurrency: 16, check_immunity: None }
    }

    /// Sets what any producer can have set, such as its timeout.
    ///
    /// ```no_run
    /// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
    /// # use rocketmq_native::{MessageView, TransactionResolution};
    /// # let checker = |_: MessageView| async { TransactionResolution::Unknown };
    /// let producer = client
    ///     .transaction_producer("payments", checker)
    ///     .with(|producer| producer.retries(5))
    ///     .start()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with(mut self, settings: impl FnOnce(ProducerBuilder) -> ProducerBuilder) -> Self {
        self.producer = settings(self.producer);
        self
    }

    /// Sets how many checks may run at the same time; 16 by default, from 1 to 1,000. (The Java client runs one.)
    pub fn check_concurrency(mut self, checks: usize) -> Self {
        self.concurrency = checks;
        self
    }

    /// Sets how long brokers leave a half message alone before they first ask about it, rounded up to seconds; what the
    /// broker is configured with by default, 6 s usually. For local transactions that take long.
    pub fn check_immunity(mut self, time: Duration) -> Self {
        self.check_immunity = Some(time);
        self
    }

    /// Starts the producer: it joins its group, and answers brokers that ask about messages of the group.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// As [`ProducerBuilder::start`], and [`ErrorKind::InvalidArgument`] when this client already has a transaction producer
    /// of the group.
    pub async fn start(self) -> Result<TransactionProducer> {
        if !(1..=1000).contains(&self.concurrency) {
            return Err(Error::new(ErrorKind::InvalidArgument, "`check_concurrency` is from 1 to 1,000")
                .with_operation("start producer"));
        }
        let producer = self.producer.start().await?;
        let (cluster, group) = (producer.0.cluster.clone(), Arc::clone(&producer.0.group));
        let checks = Arc::new(CheckQueue::default());
        let answering = cluster.transaction_checks().answer(&group, &checks);
        let answering = answering.map_err(|error| error.with_operation("start producer"))?;
        let checker = Arc::new(self.checker);
        let env = cluster.env();
        let task = || env.spawn(check::work(producer.clone(), Arc::clone(&checks), Arc::clone(&checker)));
        let tasks = (0..self.concurrency).map(|_| task()).collect();
        Ok(TransactionProducer(Arc::new(Shared {
            producer,
            checks,
            check_immunity: self.check_immunity,
            tasks: Mutex::new(tasks),
            answering: Mutex::new(Some(answering)),
        })))
    }
}
