//! Sends to brokers with access control, inside a namespace, with a secret that is renewed while the client runs.
//!
//! `ACCESS_KEY=orders SECRET_KEY=... cargo run --example access_control -- 127.0.0.1:9876 tenant`

use std::env;
use std::error::Error;

use rocketmq_native::{ChangeableCredentials, Client, Credentials, ErrorKind, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let namespace = arguments.next().unwrap_or_default();
    let credentials = ChangeableCredentials::new(from_environment()?);

    let client = Client::builder(&name_servers)
        .credentials(credentials.clone())
        .namespace(namespace) // `orders` below is `namespace%orders` to the broker
        .connect()
        .await?;
    let producer = client.producer("access-control-example").start().await?;
    for number in 0..3 {
        match producer.send(Message::new("orders", format!("order {number}"))).await {
            Ok(receipt) => println!("{} is in {}", receipt.message_id(), receipt.queue()),
            Err(error) if error.kind() == ErrorKind::Unauthenticated => {
                println!("{error}: asking for credentials again");
                credentials.replace(from_environment()?); // the next request is signed with them
            }
            Err(error) => return Err(error.into()),
        }
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}

fn from_environment() -> Result<Credentials, env::VarError> {
    let credentials = Credentials::new(env::var("ACCESS_KEY")?, env::var("SECRET_KEY")?);
    Ok(match env::var("SECURITY_TOKEN") {
        Ok(token) => credentials.security_token(token),
        Err(_) => credentials,
    })
}
