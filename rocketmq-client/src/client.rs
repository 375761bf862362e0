//! A client: one view of a cluster, shared by its producers and consumers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_wire::message::id::UniqueIdFactory;
use rocketmq_wire::request::admin::{
    ConsumeDirectlyRequest, ConsumerRunningInfoRequest, ConsumerStatusFromClientRequest, ResetConsumerOffsetRequest,
};
use rocketmq_wire::request::group::NotifyConsumerIdsChangedRequest;
use rocketmq_wire::{LanguageCode, RequestCode, ResponseCode};
use tokio::sync::{broadcast, mpsc};

use crate::admin::Admin;
use crate::cluster::discovery::Endpoint;
use crate::cluster::{self, Cluster, Groups, Identity, Replies, TransactionChecks};
use crate::config::{Config, NameServers, instance_of, parse_name_servers};
use crate::consumer::{PullConsumerBuilder, PushConsumerBuilder, QueueReader};
use crate::credentials::CredentialsProvider;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::message::check_group;
use crate::producer::ProducerBuilder;
use crate::producer::transaction::{TransactionChecker, TransactionProducerBuilder};
use crate::remoting::{ConnectionEvent, ConnectionStats, HeaderType, Incoming, Pool, PoolOptions, Stamp};
use crate::settings::Settings;
use crate::telemetry::Telemetry;
#[cfg(feature = "tls")]
use crate::transport::Tls;
use crate::transport::{Connector, Socks5};

/// How long closing waits for bytes on their way to sockets.
const CLOSING: Duration = Duration::from_secs(3);

/// The longest wait before a lost broker is tried again: short enough that sends find it within their timeout.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// A connection to a RocketMQ cluster; clones are the same client.
///
/// A client owns its connections, its routes and its heartbeats, and shares nothing with other clients: clients of two
/// clusters live side by side in one process. Everything it starts runs on the Tokio runtime that
/// [`connect`](ClientBuilder::connect) was called in.
///
/// Dropping the last clone, and the producers and consumers made of it, ends connections and tasks at once, without
/// blocking and without a runtime. [`close`](Self::close) takes leave of the brokers first.
///
/// ```no_run
/// # async fn example() -> Result<(), rocketmq_native::Error> {
/// use rocketmq_native::{Client, Message};
///
/// let client = Client::builder("127.0.0.1:9876").connect().await?;
/// let producer = client.producer("orders-service").start().await?;
/// producer.send(Message::new("orders", "hi")).await?;
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    cluster: Cluster,
}

impl Client {
    /// Begins a client of the cluster that these name servers belong to: one string with `;` or `,` between addresses,
    /// or a list of strings. An address is `host` or `host:port`; the port is 9876 unless given.
    pub fn builder(name_servers: impl NameServers) -> ClientBuilder {
        ClientBuilder {
            name_servers: name_servers.joined(),
            endpoint: None,
            unit_name: None,
            config: Config::default(),
            pool: PoolOptions { longest_backoff: LONGEST_BACKOFF, ..PoolOptions::default() },
            instance_name: None,
            credentials: None,
            namespace: None,
            #[cfg(feature = "tls")]
            tls: None,
            env: None,
        }
    }

    /// Begins a client of the cluster whose name servers an HTTP endpoint lists, `http://host:port/path`: the first line of
    /// its answer, with `;` between addresses. It is asked at [`connect`](ClientBuilder::connect), which fails without a
    /// list, and then every 2 min.
    pub fn discover(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder { endpoint: Some(url.into()), ..Self::builder("") }
    }

    /// Begins a client as a file in TOML says; the names of its settings are those of the environment, in small letters
    /// and without the prefix: see [`ClientBuilder::environment`].
    ///
    /// ```toml
    /// name_servers = "a.example.com:9876;b.example.com:9876"
    /// access_key = "orders-service"
    /// secret_key_file = "/run/secrets/rocketmq"
    /// tls_ca_file = "/etc/ssl/our-ca.pem"
    ///
    /// [address_map]
    /// "172.17.0.2:10911" = "127.0.0.1:10911"
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the file cannot be read, is no TOML, or has a setting that does not exist or
    /// makes no sense. The text names the setting, never the value of a secret.
    pub fn from_file(path: impl AsRef<Path>) -> Result<ClientBuilder> {
        Settings::from_file(path.as_ref())?.apply(Self::builder(""))
    }

    /// Begins a client as the environment says; see [`ClientBuilder::environment`]. `NAMESRV_ADDR`, as other clients
    /// have it, names the name servers when `ROCKETMQ_NAME_SERVERS` does not.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::environment`].
    pub fn from_environment() -> Result<ClientBuilder> {
        Self::builder(std::env::var("NAMESRV_ADDR").unwrap_or_default()).environment()
    }

    /// Begins a producer that belongs to a group. Producers of one group are alike; the name shows up at brokers.
    pub fn producer(&self, group: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(self.cluster.clone(), group.into())
    }

    /// Begins a producer of messages that belong to local transactions. `checker` tells brokers what became of a message of
    /// the group when they ask; see [`TransactionProducer`](crate::TransactionProducer).
    pub fn transaction_producer<C: TransactionChecker>(
        &self,
        group: impl Into<String>,
        checker: C,
    ) -> TransactionProducerBuilder<C> {
        TransactionProducerBuilder::new(self.cluster.clone(), group.into(), checker)
    }

    /// Begins a push consumer that belongs to a group: its members share the messages of the topics that they all
    /// subscribe to.
    pub fn push_consumer(&self, group: impl Into<String>) -> PushConsumerBuilder {
        PushConsumerBuilder::new(self.cluster.clone(), group.into())
    }

    /// Begins a pull consumer that belongs to a group: it is asked for messages, of topics that the members of the group
    /// share or of queues that it is given.
    pub fn pull_consumer(&self, group: impl Into<String>) -> PullConsumerBuilder {
        PullConsumerBuilder::new(self.cluster.clone(), group.into())
    }

    /// Reads queues by offset, in the name of a group.
    pub fn queue_reader(&self, group: impl Into<String>) -> QueueReader {
        QueueReader::new(self.cluster.clone(), group.into())
    }

    /// Administers the cluster: topics, groups, offsets, messages, brokers.
    pub fn admin(&self) -> Admin {
        Admin::new(self.cluster.clone())
    }

    /// What names this client at brokers: `address@process#number`, or `address@instance` with an instance name.
    pub fn client_id(&self) -> &str {
        self.cluster.client_id()
    }

    /// Connections that are opened, cannot be opened, or end, from now on.
    pub fn connection_events(&self) -> ConnectionEvents {
        ConnectionEvents(self.cluster.pool().events())
    }

    /// What happens on each open connection, by the address of the server.
    pub fn connections(&self) -> BTreeMap<String, ConnectionStats> {
        self.cluster.pool().stats()
    }

    /// The address of the name server that answered last.
    pub fn name_server(&self) -> String {
        self.cluster.name_server().to_string()
    }

    #[cfg(test)]
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Ends the client: it leaves all groups, whatever its producers and consumers still do fails with
    /// [`ErrorKind::Closed`], and the connections end. Takes 3 s at most. Shut producers and consumers down first to have
    /// what is under way finished. Calling it twice is fine.
    ///
    /// Dropping the future ends the connections at once.
    pub async fn close(&self) {
        let deadline = self.cluster.env().now() + CLOSING;
        self.cluster.close(deadline).await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("client_id", &self.client_id()).finish_non_exhaustive()
    }
}

/// What becomes of a client's connections; from [`Client::connection_events`].
///
/// The last 256 events are kept for a receiver that does not keep up.
#[derive(Debug)]
pub struct ConnectionEvents(broadcast::Receiver<ConnectionEvent>);

impl ConnectionEvents {
    /// Waits for the next event; `None` when the client is gone. Events that were not taken in time are left out.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ConnectionEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Settings of a [`Client`]; [`connect`](Self::connect) makes it. Times have the defaults of the Java client 5.3.3.
#[derive(Clone)]
#[must_use = "`connect` makes the client"]
pub struct ClientBuilder {
    name_servers: String,
    endpoint: Option<String>,
    unit_name: Option<String>,
    config: Config,
    pool: PoolOptions,
    instance_name: Option<String>,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    namespace: Option<String>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    env: Option<Env>,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("name_servers", &self.name_servers)
            .field("config", &self.config)
            .field("pool", &self.pool)
            .field("endpoint", &self.endpoint)
            .field("instance_name", &self.instance_name)
            .field("unit_name", &self.unit_name)
            .field("signs", &self.credentials.is_some())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Gives the client a fixed id, `address@name`, instead of one that no other client has.
    ///
    /// Two clients with one id in one consumer group count as one member, which loses messages: a name is for
    /// broadcasting consumers, whose progress is kept under it.
    pub fn instance_name(mut self, name: impl Into<String>) -> Self {
        self.instance_name = Some(name.into());
        self
    }

    /// Sets what the environment says, over what was set before:
    ///
    /// | variable | setting |
    /// |---|---|
    /// | `ROCKETMQ_NAME_SERVERS`, `ROCKETMQ_NAME_SERVER_ENDPOINT` | the name servers, or the [endpoint](Client::discover) that lists them |
    /// | `ROCKETMQ_ACCESS_KEY`, `ROCKETMQ_SECRET_KEY` or `ROCKETMQ_SECRET_KEY_FILE`, `ROCKETMQ_SECURITY_TOKEN` | [`credentials`](Self::credentials) |
    /// | `ROCKETMQ_NAMESPACE`, `ROCKETMQ_INSTANCE_NAME`, `ROCKETMQ_UNIT_NAME` | [`namespace`](Self::namespace), [`instance_name`](Self::instance_name), [`unit_name`](Self::unit_name) |
    /// | `ROCKETMQ_TLS` (`true`), `ROCKETMQ_TLS_CA_FILE`, `ROCKETMQ_TLS_CERTIFICATE_FILE` and `ROCKETMQ_TLS_KEY_FILE`, `ROCKETMQ_TLS_SERVER_NAME` | [`tls`](Self::tls); any of the others switches it on as well |
    /// | `ROCKETMQ_SOCKS5`, `ROCKETMQ_SOCKS5_USER`, `ROCKETMQ_SOCKS5_PASSWORD` | [`socks5`](Self::socks5) |
    /// | `ROCKETMQ_ADDRESS_MAP` (`from=to,from=to`) | [`map_address`](Self::map_address) |
    /// | `ROCKETMQ_REQUEST_TIMEOUT_MS`, `ROCKETMQ_CONNECT_TIMEOUT_MS`, `ROCKETMQ_ROUTE_INTERVAL_MS`, `ROCKETMQ_HEARTBEAT_INTERVAL_MS` | the times, in milliseconds |
    /// | `ROCKETMQ_VIP_CHANNEL` (`true`) | [`vip_channel`](Self::vip_channel) |
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a value that makes no sense; the text names the setting, never the value of a
    /// secret. Other variables with the prefix are passed over: Apache's servers have some.
    pub fn environment(self) -> Result<Self> {
        Settings::from_variables(std::env::vars())?.apply(self)
    }

    /// Replaces the name servers.
    pub fn name_servers(mut self, name_servers: impl NameServers) -> Self {
        self.name_servers = name_servers.joined();
        self.endpoint = None;
        self
    }

    /// Replaces the name servers by those that an endpoint lists; see [`Client::discover`].
    pub fn name_server_endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Adds the name of the unit that the client works in to its id, as `address@instance@unit`. None by default.
    pub fn unit_name(mut self, name: impl Into<String>) -> Self {
        self.unit_name = Some(name.into());
        self
    }

    /// Sends messages to the port two below the one that a broker states, which Apache's brokers serve by threads of its
    /// own. Off by default: proxies, port maps and NAT do not have it.
    pub fn vip_channel(mut self, on: bool) -> Self {
        self.config.vip_channel = on;
        self
    }

    /// Makes spans of sends and of handlers at work, passes trace contexts on in messages, and measures; see
    /// [`Telemetry`]. Nothing of it by default.
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.config.telemetry = Some(telemetry);
        self
    }

    /// Signs every request, for servers with access control; the credentials may change while the client runs, see
    /// [`CredentialsProvider`]. Requests are not signed by default.
    pub fn credentials(mut self, credentials: impl CredentialsProvider + 'static) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Keeps the topics and groups of this client in a namespace: `orders` is then `namespace%orders` to servers and
    /// to clients without that namespace, and `orders` everywhere in this client's API. System topics are in none.
    ///
    /// There is none by default, unless the name server's host begins with one, as in
    /// `MQ_INST_1234_abcd.mq.example.com:8080`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Encrypts the connections to name servers and brokers; they are not encrypted by default.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Reaches the server that states the address `from` at `to`: `172.17.0.2:10911` at `127.0.0.1:10911`, or all ports of
    /// a host at those of another, `172.17.0.2` at `127.0.0.1`. For brokers behind port maps of containers and behind NAT;
    /// may be called for each.
    pub fn map_address(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.pool.dial.map(from.into(), to.into());
        self
    }

    /// Asks a function where to reach the server that states an address; `None` leaves it to
    /// [`map_address`](Self::map_address). It is called for each new connection and must not block.
    pub fn map_addresses(mut self, mapping: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.pool.dial.map_by(Arc::new(mapping));
        self
    }

    /// Reaches servers through a proxy. Of several, the first that is for a server's address is taken.
    pub fn socks5(mut self, proxy: Socks5) -> Self {
        self.pool.dial.through(proxy);
        self
    }

    /// Opens connections in a way of the application's own, instead of by TCP.
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.pool.dial.by(Arc::new(connector));
        self
    }

    /// Sets how request headers are written: [`HeaderType::Auto`] by default.
    pub fn header_type(mut self, header_type: HeaderType) -> Self {
        self.pool.connection.header_type = header_type;
        self
    }

    /// Sets the limit of requests that have no limit of their own, such as route look-ups and heartbeats; 3 s by default.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Sets the limit of opening a connection; 3 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.pool.connect_timeout = timeout;
        self
    }

    /// Sets how often routes are looked up again; 30 s by default.
    pub fn route_interval(mut self, interval: Duration) -> Self {
        self.config.route_interval = interval;
        self
    }

    /// Sets how often brokers are told that this client lives; 30 s by default. Brokers forget a client after 120 s.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = interval;
        self
    }

    /// Sets how many requests may await their answers on one connection; 65,535 by default and at most. One more waits.
    pub fn max_in_flight(mut self, requests: usize) -> Self {
        self.pool.connection.max_in_flight = requests;
        self
    }

    /// Sets how many bytes of requests may be under way on one connection; 64 MiB by default. One more request waits.
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.pool.connection.max_in_flight_bytes = bytes;
        self
    }

    /// Sets the largest frame accepted from a server, in bytes; 16 MiB by default.
    pub fn max_frame_bytes(mut self, bytes: usize) -> Self {
        self.pool.connection.max_frame_bytes = bytes;
        self
    }

    /// Sets the language that the client claims to be written in; Rust by default. For bindings.
    pub fn language(mut self, language: LanguageCode) -> Self {
        self.pool.connection.language = language;
        self
    }

    /// Sets where time, randomness and connections come from: [`Env::system`] by default. For tests.
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Makes the client, once one of the name servers has answered.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for addresses or settings that make no sense, and outside of a Tokio runtime;
    /// [`ErrorKind::Connection`] or [`ErrorKind::Timeout`], naming the addresses tried, when no name server answers
    /// within the connect timeout and the request timeout together.
    pub async fn connect(mut self) -> Result<Client> {
        self.check()?;
        let env = match self.env.take() {
            Some(env) => env,
            None => Env::system()?,
        };
        let endpoint = self.endpoint.as_deref().map(Endpoint::parse).transpose()?;
        let addresses = match &endpoint {
            Some(endpoint) => endpoint.fetch(&env).await?,
            None => parse_name_servers(&self.name_servers)?,
        };
        let stamp = self.stamp(&addresses)?;
        let namespace = stamp.own_namespace().clone();
        self.pool.connection.stamp = (!stamp.is_blank()).then(|| Arc::new(stamp));
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            // Files are read.
            let built = env.spawn_blocking(move || tls.build()).await;
            self.pool.dial.encrypted(built.map_err(|error| Error::new(ErrorKind::Closed, error.to_string()))??);
        }
        let dial = self.pool.dial.clone();
        let deadline = env.now() + self.pool.connect_timeout + self.config.request_timeout;
        let (pool, incoming) = Pool::new(env.clone(), self.pool);
        let reached = cluster::reach(&env, &pool, &addresses, deadline).await;
        let name_servers = reached.map_err(|error| error.with_operation("connect"))?;
        let address = local_address(&env, &dial.address(&name_servers.preferred())).await;
        let identity = identity(&env, address, self.instance_name.as_deref(), self.unit_name.as_deref());
        let cluster = Cluster::new(env.clone(), self.config, namespace, name_servers, pool, identity);
        let asked = Asked {
            env: env.clone(),
            groups: cluster.groups().clone(),
            replies: cluster.replies().clone(),
            transaction_checks: cluster.transaction_checks().clone(),
        };
        cluster.own(env.spawn(asked.serve(incoming)));
        #[cfg(feature = "metrics")]
        if let Some(telemetry) = &cluster.config().telemetry {
            let counting = telemetry.count_connections(cluster.pool().events(), cluster.pool().stats().len());
            counting.into_iter().for_each(|counting| cluster.own(env.spawn(counting)));
        }
        if let Some(endpoint) = endpoint {
            cluster.follow(endpoint);
        }
        Ok(Client { cluster })
    }

    /// What every request gets besides its own fields.
    fn stamp(&self, name_servers: &[String]) -> Result<Stamp> {
        let mut stamp = Stamp::default();
        if let Some(credentials) = &self.credentials {
            credentials.credentials().check()?;
            stamp = stamp.credentials(Arc::clone(credentials));
        }
        let namespace = self.namespace.as_deref().or_else(|| name_servers.iter().find_map(|host| instance_of(host)));
        stamp.namespace(namespace.unwrap_or_default())
    }

    fn check(&self) -> Result<()> {
        for (name, time) in [
            ("request_timeout", self.config.request_timeout),
            ("connect_timeout", self.pool.connect_timeout),
            ("route_interval", self.config.route_interval),
            ("heartbeat_interval", self.config.heartbeat_interval),
        ] {
            if time.is_zero() || time > Duration::from_secs(24 * 3600) {
                let message = format!("`{name}` is {time:?}: choose more than nothing and at most a day");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        self.pool.dial.check()?;
        for (name, what) in [(&self.instance_name, "check `instance_name`"), (&self.unit_name, "check `unit_name`")] {
            if let Some(name) = name {
                check_group(name).map_err(|error| error.with_operation(what))?;
            }
        }
        Ok(())
    }
}

/// The address of this machine on the way to a name server; loopback when it cannot be told.
async fn local_address(env: &Env, name_server: &str) -> IpAddr {
    let toward = async {
        let (host, port) = name_server.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        env.resolve(host, port.parse().ok()?).await.ok()?.into_iter().next()
    };
    let toward = toward.await;
    toward.and_then(|server| env.local_address(server).ok()).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn identity(env: &Env, address: IpAddr, instance_name: Option<&str>, unit_name: Option<&str>) -> Identity {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let process = std::process::id();
    let client_id = match instance_name {
        Some(name) => format!("{host}@{name}"),
        None => format!("{host}@{process}#{}", env.random()),
    };
    let client_id = match unit_name {
        Some(unit) => format!("{client_id}@{unit}"),
        None => client_id,
    };
    let random = env.random();
    // Two halves of one number: the salt tells apart clients of one process, and processes with one number.
    Identity::new(
        client_id,
        instance_name.is_some(),
        UniqueIdFactory::new(address, process, (random >> 32) as i32, 0),
        random as u16,
    )
}

/// What brokers may ask of this client, and whom it is handed to.
struct Asked {
    env: Env,
    groups: Groups,
    replies: Replies,
    transaction_checks: TransactionChecks,
}

impl Asked {
    /// Hands on what comes, until the client's connections end.
    async fn serve(self, mut incoming: mpsc::Receiver<Incoming>) {
        while let Some(request) = incoming.recv().await {
            match request.code() {
                RequestCode::NOTIFY_CONSUMER_IDS_CHANGED => {
                    match request.decode::<NotifyConsumerIdsChangedRequest<'_>>() {
                        Ok(notice) => self.groups.consumer_group_changed(&notice.consumer_group),
                        Err(error) => tracing::warn!(%error, "a notice of a changed consumer group was ignored"),
                    }
                }
                RequestCode::CHECK_TRANSACTION_STATE => self.transaction_checks.deliver(&request),
                RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT => self.replies.deliver(request, self.env.wall_clock_ms()),
                RequestCode::RESET_CONSUMER_CLIENT_OFFSET => {
                    let group =
                        request.decode::<ResetConsumerOffsetRequest<'_>>().map(|header| header.group.into_owned());
                    pass_on(&self.groups, group, request);
                }
                RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => {
                    let header = request.decode::<ConsumerStatusFromClientRequest<'_>>();
                    let group = header.map(|header| header.group.into_owned());
                    pass_on(&self.groups, group, request);
                }
                RequestCode::GET_CONSUMER_RUNNING_INFO => {
                    let header = request.decode::<ConsumerRunningInfoRequest<'_>>();
                    let group = header.map(|header| header.consumer_group.into_owned());
                    pass_on(&self.groups, group, request);
                }
                RequestCode::CONSUME_MESSAGE_DIRECTLY => {
                    let header = request.decode::<ConsumeDirectlyRequest<'_>>();
                    let group = header.map(|header| header.consumer_group.into_owned());
                    pass_on(&self.groups, group, request);
                }
                code => {
                    let remark = format!("this client does not serve request {code}");
                    request.refuse(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, &remark);
                }
            }
        }
    }
}

/// Has the consumer of a group answer a request.
fn pass_on(groups: &Groups, group: Result<String>, request: Incoming) {
    match group {
        Ok(group) => {
            if let Err(request) = groups.pass_on(&group, request) {
                // Java's words, which its tools may look for.
                let remark = format!("The Consumer Group <{group}> not exist in this consumer");
                request.refuse(ResponseCode::SYSTEM_ERROR, &remark);
            }
        }
        Err(error) => request.refuse(ResponseCode::SYSTEM_ERROR, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    /// Compiles only while what users await can be awaited in a spawned task.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn futures_can_be_spawned(client: &'static Client, builder: ClientBuilder) {
        fn spawned(_: impl Future<Output: Send> + Send) {}
        spawned(builder.connect());
        spawned(client.close());
        spawned(async {
            let producer = client.producer("group").start().await?;
            producer.send(Message::new("topic", "body")).await?;
            producer.send_one_way(Message::new("topic", "body")).await?;
            producer.shutdown().await;
            Ok::<_, crate::Error>(())
        });
    }
}
