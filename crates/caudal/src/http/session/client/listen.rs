//! Asking a server for its messages, again and again.

use std::future::Future;
use std::io;

use caudal_core::CloseReason;
use http::Request;

use super::{ClientSession, GetError, Retry, SessionEnd};
use crate::http::Body;
use crate::http::client::pool::PooledResponse;

/// Way in which the server's messages come when they are asked for.
pub(crate) trait MessageSource {
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
    mut source: impl MessageSource + Send,
    first: Option<PooledResponse>,
) -> Option<CloseReason> {
    let mut retry = Retry::new();
    let mut heard = match first {
        Some(_) => source.read(first, &mut retry).await,
        None => {
            source.session().identified().await;
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
        let request = source.request();
        let response = source.session().get(request).await;
        source.session().set_listening(response.is_ok());
        heard = match response {
            Ok(response) => source.read(response, &mut retry).await,
            Err(error) => Err(error),
        };
    }
}
