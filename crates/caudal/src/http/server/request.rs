//! One request of a connection, from its head to its response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{Answer, Rest};
use super::body::Body;
use super::drain_body::Lingering;
use super::service::is_bare;
use super::{Place, Visit};
use crate::http::plain;
use crate::router::handler::BoxFuture;

/// The answer to a request.
///
/// hyper moves it before it is polled. An `async` block would have the room of all that a
/// request can wait for; most wait for nothing, and those that do get it then.
pub(super) struct Served {
    /// Until it is looked at.
    request: Option<Request<Incoming>>,
    /// The rest of the work, if the request could not be answered at once.
    rest: Option<BoxFuture<(Answer, HeaderMap)>>,
    /// Until there is an answer.
    visit: Option<Visit>,
    #[cfg(feature = "http2")]
    version: http::Version,
    is_bare: bool,
}

/// A request.
struct Asked {
    head: Parts,
    body: Lingering,
}

impl Served {
    #[inline]
    pub(super) fn new(request: Request<Incoming>, visit: Visit) -> Self {
        Self {
            #[cfg(feature = "http2")]
            version: request.version(),
            is_bare: is_bare(request.method(), request.version()),
            request: Some(request),
            rest: None,
            visit: Some(visit),
        }
    }

    /// The answer, and room for its headers.
    #[inline]
    fn poll_answer(&mut self, place: &Place, cx: &mut Context<'_>) -> Poll<(Answer, HeaderMap)> {
        if let Some(request) = self.request.take() {
            let (head, body) = request.into_parts();
            let body = Lingering::new(&head, body);
            let mut asked = Asked { head, body };
            match begin(place, &mut asked) {
                Ok(answer) => return Poll::Ready((answer, asked.head.headers)),
                Err(rest) => self.rest = Some(wait(place, asked, rest)),
            }
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// Waits for what is left of the request.
#[inline(never)]
fn wait(place: &Place, mut asked: Asked, rest: Box<Rest>) -> BoxFuture<(Answer, HeaderMap)> {
    let http = place.http.clone();
    Box::pin(async move {
        let Asked { head, body } = &mut asked;
        let answer = http.finish(head, Pin::new(body), rest).await;
        (answer, asked.head.headers)
    })
}

impl Future for Served {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(visit) = this.visit.take() else {
            // It was answered.
            return Poll::Pending;
        };
        let Poll::Ready((answer, room)) = this.poll_answer(&visit.place, cx) else {
            this.visit = Some(visit);
            return Poll::Pending;
        };
        let mut response = visit.place.http.respond(answer, room);
        if this.is_bare {
            *response.body_mut() = Body::empty();
        }
        #[cfg(feature = "http2")]
        if this.version == http::Version::HTTP_2 {
            let origin = visit.place.http.origin();
            response.body_mut().give_in_pieces(origin);
        }
        // Until it is sent, the request is under way.
        response.body_mut().last_with(visit);
        Poll::Ready(Ok(response))
    }
}

/// Answers a request at once, if it can be.
///
/// # Errors
/// The rest of a request that must wait.
#[inline]
fn begin(place: &Place, asked: &mut Asked) -> Result<Answer, Box<Rest>> {
    let Asked { head, body } = asked;
    if head.uri.path() != &*place.path {
        let text = "nothing is served at this path\n";
        let refused = plain(StatusCode::NOT_FOUND, text);
        return Ok(Answer::refusal(Box::new(refused)));
    }
    place.http.begin(head, Pin::new(body))
}
