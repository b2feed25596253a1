//! One request of a connection, from its head to its response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use super::body::Body;
use super::linger::Lingering;
use super::plain;
use super::serve::{Place, Visit};
use super::service::is_bare;
use crate::handler::BoxFuture;

/// The answer to a request.
///
/// hyper moves it before it is polled. An `async` block would have the room of all that a
/// request can wait for; most wait for nothing, and those that do get it then.
pub(super) struct Served {
    /// Until it is begun.
    request: Option<Request<Incoming>>,
    /// What it waits for, if it does.
    rest: Option<BoxFuture<Response<Body>>>,
    /// Until there is an answer.
    visit: Option<Visit>,
    version: Version,
    is_bare: bool,
}

impl Served {
    pub(super) fn new(request: Request<Incoming>, visit: Visit) -> Self {
        Self {
            version: request.version(),
            is_bare: is_bare(request.method(), request.version()),
            request: Some(request),
            rest: None,
            visit: Some(visit),
        }
    }

    fn poll_response(&mut self, place: &Place, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        if let Some(request) = self.request.take() {
            match begin(place, request) {
                Ok(response) => return Poll::Ready(response),
                Err(rest) => self.rest = Some(rest),
            }
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Future for Served {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(mut visit) = this.visit.take() else {
            // It was answered.
            return Poll::Pending;
        };
        let Poll::Ready(mut response) = this.poll_response(&visit.place, cx) else {
            this.visit = Some(visit);
            return Poll::Pending;
        };
        if this.is_bare {
            *response.body_mut() = Body::empty();
        }
        if this.version == Version::HTTP_2 {
            // There may be many at once.
            visit.owe(response.body());
            response.body_mut().give_in_pieces();
        }
        response.body_mut().last_with(visit);
        Poll::Ready(Ok(response))
    }
}

/// Answers a request at once, if it can be.
///
/// # Errors
/// What must be waited for.
fn begin(
    place: &Place,
    request: Request<Incoming>,
) -> Result<Response<Body>, BoxFuture<Response<Body>>> {
    let Place { http, path, .. } = place;
    let (mut head, body) = request.into_parts();
    let mut body = Lingering::new(&head, body);
    if head.uri.path() != &**path {
        let text = "nothing is served at this path\n";
        return Ok(plain(StatusCode::NOT_FOUND, text));
    }
    http.begin(&mut head, Pin::new(&mut body)).map_err(|rest| {
        let http = http.clone();
        let rest = async move { http.finish(&mut head, Pin::new(&mut body), rest).await };
        Box::pin(rest) as BoxFuture<_>
    })
}
