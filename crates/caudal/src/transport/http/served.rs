//! One request of a connection, from its head to its response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use super::body::Body;
use super::linger::Lingering;
use super::plain;
use super::serve::{Place, Visit};
use super::service::{Rest, is_bare};
use crate::handler::BoxFuture;

/// The answer to a request.
///
/// hyper moves it before it is polled. An `async` block would have the room of all that a
/// request can wait for; most wait for nothing, and those that do get it then.
pub(super) struct Served {
    /// Until it waits for something.
    asked: Option<Asked>,
    /// What it waits for, if it does.
    rest: Option<BoxFuture<Response<Body>>>,
    /// Until there is an answer.
    visit: Option<Visit>,
    version: Version,
    is_bare: bool,
}

/// A request.
struct Asked {
    head: Parts,
    body: Lingering,
}

impl Served {
    pub(super) fn new(request: Request<Incoming>, visit: Visit) -> Self {
        let (head, body) = request.into_parts();
        let body = Lingering::new(&head, body);
        Self {
            version: head.version,
            is_bare: is_bare(&head.method, head.version),
            asked: Some(Asked { head, body }),
            rest: None,
            visit: Some(visit),
        }
    }

    /// Begins to wait for what is left of the request.
    #[inline(never)]
    fn wait(&mut self, rest: Box<Rest>) {
        if let (Some(mut asked), Some(visit)) = (self.asked.take(), &self.visit) {
            let http = visit.place.http.clone();
            self.rest = Some(Box::pin(async move {
                let Asked { head, body } = &mut asked;
                http.finish(head, Pin::new(body), rest).await
            }));
        }
    }

    /// Until the response is sent, the request is under way.
    #[inline]
    fn answer(&mut self, response: &mut Response<Body>) {
        if self.is_bare {
            *response.body_mut() = Body::empty();
        }
        if let Some(mut visit) = self.visit.take() {
            if self.version == Version::HTTP_2 {
                // There may be many at once.
                visit.owe(response.body());
                response.body_mut().give_in_pieces();
            }
            response.body_mut().last_with(visit);
        }
    }
}

impl Future for Served {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(visit) = &this.visit else {
            // It was answered.
            return Poll::Pending;
        };
        if this.rest.is_none()
            && let Some(asked) = &mut this.asked
        {
            match begin(&visit.place, asked) {
                Ok(mut response) => {
                    this.answer(&mut response);
                    return Poll::Ready(Ok(response));
                }
                Err(rest) => this.wait(rest),
            }
        }
        let Some(rest) = &mut this.rest else {
            return Poll::Pending;
        };
        let mut response = ready!(rest.as_mut().poll(cx));
        this.answer(&mut response);
        Poll::Ready(Ok(response))
    }
}

/// Answers a request at once, if it can be.
///
/// # Errors
/// What must be waited for.
#[inline]
fn begin(place: &Place, asked: &mut Asked) -> Result<Response<Body>, Box<Rest>> {
    let Asked { head, body } = asked;
    if head.uri.path() != &*place.path {
        let text = "nothing is served at this path\n";
        return Ok(plain(StatusCode::NOT_FOUND, text));
    }
    place.http.begin(head, Pin::new(body))
}
