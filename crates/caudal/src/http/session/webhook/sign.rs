//! Signatures of [Standard Webhooks](https://www.standardwebhooks.com). They prove the
//! sender of a message, its time, and that it was not changed.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderName;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

/// Header with the name of the message, which is the same in every attempt.
pub(crate) const ID: HeaderName = HeaderName::from_static("webhook-id");
/// Header with the time of the attempt, in seconds of Unix time.
pub(crate) const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// Header with one signature or several, with spaces between.
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Maximum difference of a timestamp in either direction, in seconds.
pub(crate) const WINDOW: u64 = 300;

const PREFIX: &str = "whsec_";
/// Length of a new secret, in random bytes.
const FRESH: usize = 32;
/// Lengths that a secret may have, in bytes.
const SIZES: std::ops::RangeInclusive<usize> = 24..=64;

/// Secret that both sides sign with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// Makes a new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; FRESH];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads `whsec_…`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        SIZES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Returns `whsec_…`, for the client that registers only.
    pub(crate) fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Returns the value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut mac = self.begin(id.as_bytes(), timestamp.to_string().as_bytes());
        mac.add(body);
        format!("v1,{}", STANDARD.encode(mac.finish()))
    }

    /// Begins with a message whose body comes in pieces.
    pub(crate) fn begin(&self, id: &[u8], timestamp: &[u8]) -> Mac {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of HMAC may have any length");
        for part in [id, b".", timestamp, b"."] {
            mac.update(part);
        }
        Mac(mac)
    }
}

/// Authentication code of a message, as far as its body has come.
pub(crate) struct Mac(Hmac<Sha256>);

impl Mac {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Headers of a signed message, as they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) timestamp: &'a [u8],
    pub(crate) signatures: &'a [u8],
}

impl Signed<'_> {
    /// Returns true if the timestamp is near `now` and a signature has the code that the
    /// message should have.
    pub(crate) fn is_valid(&self, now: u64, mac: &[u8; 32]) -> bool {
        let is_recent = |time| now.abs_diff(time) <= WINDOW;
        if !digits(self.timestamp).is_some_and(is_recent) {
            return false;
        }
        // All are compared, so that the time does not reveal which one was right.
        let candidates = self.signatures.split(|byte| *byte == b' ');
        let found = candidates.fold(Choice::from(0), |found, candidate| {
            let text = candidate.strip_prefix(b"v1,").unwrap_or_default();
            let given = STANDARD.decode(text).unwrap_or_default();
            found | given.ct_eq(mac)
        });
        found.into()
    }
}

/// Reads a number as it is signed: digits, and nothing else.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let only = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| only)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the reference implementations of the specification.
    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NAME: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const GOOD: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn is_valid(id: &str, timestamp: &str, signatures: &str, body: &[u8]) -> bool {
        let signed = Signed {
            id: id.as_bytes(),
            timestamp: timestamp.as_bytes(),
            signatures: signatures.as_bytes(),
        };
        let mut sum = Key::parse(KEY).unwrap().begin(signed.id, signed.timestamp);
        body.chunks(3).for_each(|piece| sum.add(piece));
        signed.is_valid(TIME, &sum.finish())
    }

    #[test]
    fn signatures_are_those_of_the_specification() {
        let key = Key::parse(KEY).unwrap();
        assert_eq!(key.sign(NAME, TIME, BODY), GOOD);
        assert_eq!(key.reveal(), KEY);
        // Computed with another implementation of HMAC.
        let key = Key((0..32).collect());
        let body = r#"{"jsonrpc":"2.0","method":"é"}"#.as_bytes();
        assert_eq!(
            key.sign("msg_a_1", 1_700_000_000, body),
            "v1,Lj8wx2BKh+HMR3O9wrH3PJN+nmvsUZRu/7aLrEDjxuA=",
        );
    }

    #[test]
    fn one_right_signature_among_many_is_enough() {
        let time = TIME.to_string();
        let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        for good in [
            GOOD.to_owned(),
            format!("{wrong} {GOOD}"),
            format!("{GOOD} {wrong}"),
            format!("v1a,AAAA {GOOD} x  "),
        ] {
            assert!(is_valid(NAME, &time, &good, BODY), "{good}");
        }
        let v2 = GOOD.replace("v1", "v2");
        let (bare, short) = (&GOOD[3..], &GOOD[..20]);
        for bad in ["", " ", "v1,", wrong, &v2, bare, short, &format!("{GOOD}A")] {
            assert!(!is_valid(NAME, &time, bad, BODY), "{bad}");
        }
    }

    #[test]
    fn every_signed_part_counts() {
        let time = TIME.to_string();
        assert!(!is_valid("msg_other", &time, GOOD, BODY));
        assert!(!is_valid(NAME, &(TIME + 1).to_string(), GOOD, BODY));
        assert!(!is_valid(NAME, &time, GOOD, b"{}"));
        let other = Key((0..32).collect()).sign(NAME, TIME, BODY);
        assert!(!is_valid(NAME, &time, &other, BODY));
    }

    #[test]
    fn a_timestamp_may_be_five_minutes_off_and_no_more() {
        let key = Key::parse(KEY).unwrap();
        // The signature is always right.
        let at = |timestamp: &str| {
            let mut sum = key.begin(NAME.as_bytes(), timestamp.as_bytes());
            sum.add(BODY);
            let signature = format!("v1,{}", STANDARD.encode(sum.finish()));
            is_valid(NAME, timestamp, &signature, BODY)
        };
        for (time, is_valid) in [
            (TIME - 300, true),
            (TIME + 300, true),
            (TIME - 301, false),
            (TIME + 301, false),
            (0, false),
            (u64::MAX, false),
        ] {
            assert_eq!(at(&time.to_string()), is_valid, "{time}");
        }
        for bad in ["", "x", "-1", "+1614265330", " 1614265330", "1614265330.0"] {
            assert!(!at(bad), "{bad}");
        }
        assert!(!at("99999999999999999999"));
    }

    #[test]
    fn secrets_are_random_and_of_a_sound_length() {
        let (one, two) = (Key::random().unwrap(), Key::random().unwrap());
        assert_ne!(one, two);
        assert_eq!(Key::parse(&one.reveal()), Some(one.clone()));
        assert_eq!(format!("{one:?}"), "Key(…)");
        let of = |size| format!("whsec_{}", STANDARD.encode(vec![7; size]));
        assert!(Key::parse(&of(24)).is_some() && Key::parse(&of(64)).is_some());
        assert!(Key::parse(&of(23)).is_none() && Key::parse(&of(65)).is_none());
        for bad in ["", "whsec_", "whsec_!", &KEY[6..]] {
            assert!(Key::parse(bad).is_none(), "{bad}");
        }
    }
}
