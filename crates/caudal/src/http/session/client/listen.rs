//! Asking a server for its messages, again and again.

use std::future::Future;
use std::io;

use caudal_core::CloseReason;
use http::Request;

use super::{ClientSession, GetError, Retry, SessionEnd};
use crate::http::Body;
use crate::http::client::pool::PooledResponse;

/// Way in which the server's messages come when they are asked for.
pub(crate) trait Downlink {
    fn session(&self) -> &ClientSession;

    /// Makes the next GET.
    fn request(&mut self) -> Request<Body>;

    /// Reads a response and passes its messages on; `None` if the server had nothing to send.
    ///
    /// # Errors
    /// The reason for a pause before the next request, or for the end.
    fn read(
        &mut self,
        response: Option<PooledResponse>,
        retry: &mut Retry,
    ) -> impl Future<Output = Result<(), GetError>> + Send;
}

/// Listens until the session ends, from its first response on; `None` if the server takes no
/// GETs.
pub(crate) async fn listen(
    mut downlink: impl Downlink + Send,
    first: Option<PooledResponse>,
) -> Option<CloseReason> {
    let mut retry = Retry::new();
    let mut heard = match first {
        Some(_) => downlink.read(first, &mut retry).await,
        None => {
            downlink.session().identified().await;
            Ok(())
        }
    };
    loop {
        match heard {
            Ok(()) => retry.succeeded(),
            Err(GetError::Unsupported) => return None,
            Err(GetError::Ended(end)) => return Some(end.into()),
            Err(GetError::Failed(error)) => {
                retry.tried(error.kind() == io::ErrorKind::ConnectionRefused);
                if !retry.wait().await {
                    return Some(SessionEnd::Broken(error.to_string()).into());
                }
            }
        }
        let request = downlink.request();
        let response = downlink.session().get(request).await;
        downlink.session().set_listening(response.is_ok());
        heard = match response {
            Ok(response) => downlink.read(response, &mut retry).await,
            Err(error) => Err(error),
        };
    }
}
