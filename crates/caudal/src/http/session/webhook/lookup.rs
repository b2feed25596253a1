//! Addresses of the hosts of webhooks, looked up a few at a time.
//!
//! A look-up occupies a thread until the name servers answer, also when its result is not
//! needed any more. Blocking handlers need those threads, too.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::target::TargetError;
use crate::connection::deadline::after;

/// Maximum number of look-ups at a time.
const MAX_LOOKUPS: usize = 16;
/// Time for a look-up, with the wait for its turn.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Look-ups for all webhooks of a server.
#[derive(Clone, Debug)]
pub(crate) struct Lookup(Arc<Semaphore>);

impl Default for Lookup {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS)))
    }
}

impl Lookup {
    /// Finds the addresses of a host. A host that is an address needs no look-up.
    pub(super) async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, TargetError> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let name = (host.to_owned(), port);
        self.wait(async move {
            let found = tokio::net::lookup_host(name).await;
            found.map(Iterator::collect)
        })
        .await
    }

    /// Runs a look-up when it is its turn. The turn lasts until the look-up has ended, also
    /// when its result is not needed any more.
    async fn wait<F>(&self, look: F) -> Result<Vec<SocketAddr>, TargetError>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let until = after(Instant::now(), TIMEOUT);
        let turn = timeout_at(until, Arc::clone(&self.0).acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(TargetError::Busy)?;
        let looks = tokio::spawn(async move {
            let found = look.await;
            drop(turn);
            found
        });
        let found = match timeout_at(until, looks).await {
            Ok(ended) => ended.unwrap_or_else(|failed| Err(failed.into())),
            Err(late) => Err(late.into()),
        };
        found.map_err(TargetError::Unknown)
    }
}

#[cfg(test)]
impl Lookup {
    /// Makes one in which no look-up gets a turn.
    pub(super) fn full() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_given_up_still_has_its_turn() {
        let lookup = Lookup::default();
        let (end, ended) = oneshot::channel();
        let mut looks = vec![tokio::spawn({
            let lookup = lookup.clone();
            async move {
                let look = async move { Ok(ended.await.into_iter().collect()) };
                lookup.wait(look).await
            }
        })];
        for _ in 1..MAX_LOOKUPS {
            let lookup = lookup.clone();
            looks.push(tokio::spawn(async move { lookup.wait(pending()).await }));
        }
        for look in looks {
            let late = look.await.unwrap();
            assert!(matches!(late, Err(TargetError::Unknown(_))), "{late:?}");
        }
        let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let more = async || lookup.wait(async move { Ok(vec![address]) }).await;
        assert!(matches!(more().await, Err(TargetError::Busy)));
        // Only what has really ended leaves room.
        end.send(address).unwrap();
        assert_eq!(more().await.unwrap(), [address]);
        assert_eq!(more().await.unwrap(), [address]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_gets_it() {
        let lookup = Lookup(Arc::new(Semaphore::new(1)));
        let short = || async {
            tokio::time::sleep(TIMEOUT / 3).await;
            Ok(Vec::new())
        };
        let (one, two, three) = tokio::join!(
            lookup.wait(short()),
            lookup.wait(short()),
            lookup.wait(pending()),
        );
        assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
        assert!(matches!(three, Err(TargetError::Unknown(_))), "{three:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_nobody() {
        let lookup = Lookup::full();
        for (host, address) in [
            ("192.0.2.1", "192.0.2.1:7"),
            ("2001:db8::1", "[2001:db8::1]:7"),
        ] {
            let found = lookup.find(host, 7).await.unwrap();
            assert_eq!(found, [address.parse().unwrap()]);
        }
        let name = lookup.find("localhost", 7).await;
        assert!(matches!(name, Err(TargetError::Busy)), "{name:?}");
    }
}
