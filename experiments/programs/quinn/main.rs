// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A server of files by QUIC and a client of it, on quinn. The server may ask for fewer ACKs (ack-frequency).
//!
//!     quinn-file server FOLDER [EVERY]      EVERY: an ACK for so many packets, in place of two
//!     quinn-file client HOST PATH           prints the bytes and the seconds as JSON
//!
//! A request is that of HTTP/0.9, as in tests of QUIC stacks: "GET PATH" on a stream of its own.

use std::{env, error::Error, fs, net::SocketAddr, net::ToSocketAddrs, path::Path, sync::Arc, time::Instant};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, ClientConfig, Endpoint, Incoming, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

const CERTIFICATE: &str = "/etc/server.crt";
const KEY: &str = "/etc/server.key";
const PROTOCOL: &str = "hq-interop";
const PORT: u16 = 443;
const REQUEST_MAX: usize = 1000; // bytes

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", folder] => serve(folder, None).await,
        ["server", folder, every] => serve(folder, Some(every.parse()?)).await,
        ["client", host, path] => load(host, path).await,
        _ => Err("usage: quinn-file server FOLDER [EVERY] | client HOST PATH".into()),
    }
}

async fn serve(folder: &str, every: Option<u32>) -> Outcome<()> {
    let key = PrivateKeyDer::from_pem_file(KEY)?;
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from_pem_file(CERTIFICATE)?], key)?;
    tls.alpn_protocols = vec![PROTOCOL.into()];
    let mut transport = TransportConfig::default();
    if let Some(packets) = every {
        let mut frequency = AckFrequencyConfig::default();
        frequency.ack_eliciting_threshold(packets.saturating_sub(1).into()); // those that need no ACK at once
        transport.ack_frequency_config(Some(frequency));
    }
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::server(config, SocketAddr::from(([0, 0, 0, 0], PORT)))?;
    while let Some(incoming) = endpoint.accept().await {
        let folder = folder.to_owned();
        tokio::spawn(async move {
            if let Err(error) = answer(incoming, &folder).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// The requests of a connection, one after another, until the client closes it.
async fn answer(incoming: Incoming, folder: &str) -> Outcome<()> {
    let connection = incoming.await?;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let request = String::from_utf8(receive.read_to_end(REQUEST_MAX).await?)?;
        let path = request.trim_end().strip_prefix("GET /").ok_or("no GET")?;
        send.write_all(&fs::read(Path::new(folder).join(path))?).await?;
        send.finish()?;
    }
    Ok(())
}

async fn load(host: &str, path: &str) -> Outcome<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(CERTIFICATE)?)?;
    let mut tls = rustls::ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.into()];
    let begin = Instant::now();
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
    let address = (host, PORT).to_socket_addrs()?.next().ok_or("no address")?;
    let connection = endpoint.connect(address, host)?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    send.finish()?;
    let mut bytes = 0;
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len();
    }
    println!("{{\"bytes\": {bytes}, \"seconds\": {}}}", begin.elapsed().as_secs_f64());
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}
