//! Frames made by hand and by another implementation, whole and in pieces.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::io::Cursor;

use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Message, WebSocket};

use super::*;
use crate::http::ws::socket::write_frame;

const LIMIT: usize = 1 << 20;
const MASK: [u8; 4] = [7, 1, 200, 3];

/// A result of [`Frames::next`], with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Goodbye(String),
    TooLarge,
    NotUtf8,
    Violation(Violation),
}

fn see(frames: &mut Frames) -> Option<Seen> {
    Some(match frames.next() {
        Ok(None) => return None,
        Ok(Some(Found::Message)) => Seen::Message(frames.message().to_vec()),
        Ok(Some(Found::Ping)) => Seen::Ping(frames.payload().to_vec()),
        Ok(Some(Found::Goodbye(goodbye))) => Seen::Goodbye(goodbye.to_string()),
        Err(Fault::TooLarge { limit }) => {
            assert_eq!(limit, frames.max_message);
            Seen::TooLarge
        }
        Err(Fault::Broken(Broken::NotUtf8)) => Seen::NotUtf8,
        Err(Fault::Broken(Broken::Protocol(violation))) => Seen::Violation(violation),
        Err(other) => panic!("{other:?}"),
    })
}

/// Feeds bytes as a socket would, so many at once, and stops at a fault.
fn feed(frames: &mut Frames, mut bytes: &[u8], at_once: usize) -> Vec<Seen> {
    let mut all = Vec::new();
    loop {
        while let Some(seen) = see(frames) {
            let done = !matches!(seen, Seen::Message(_) | Seen::Ping(_));
            all.push(seen);
            if done {
                return all;
            }
        }
        if bytes.is_empty() {
            return all;
        }
        let buffer = frames.buffer_mut();
        let room = buffer.capacity() - buffer.len();
        assert!(room > 0, "nothing can be read");
        let (now, later) = bytes.split_at(room.min(at_once).min(bytes.len()));
        buffer.extend_from_slice(now);
        bytes = later;
    }
}

fn server() -> Frames {
    Frames::new(Role::Server, LIMIT)
}

/// All that is found in these bytes, which came at once.
fn read(bytes: &[u8]) -> Vec<Seen> {
    feed(&mut server(), bytes, usize::MAX)
}

/// A frame of a client. `first` has the opcode, and 0x80 if it is the last frame.
pub(in crate::http::ws) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    write_frame(&mut frame, Opcode::Continuation, payload, Some(MASK));
    frame[0] = first;
    frame.to_vec()
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn text(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| char::from(b' ' + self.roll(95) as u8))
            .collect()
    }
}

#[test]
fn hostile_heads_are_told_apart() {
    use Violation::{Code, Continuation, Control, Masking, NoCode, Opcode, Reserved};
    let long = |first: u8, length: u64| [&[first, 0xff][..], &length.to_be_bytes()].concat();
    let close = |payload: &[u8]| masked(0x88, payload);
    let code = |code: u16| masked(0x88, &code.to_be_bytes());
    let broken = |violation| Seen::Violation(violation);
    let mut table = vec![
        (vec![0xc1, 0x80], broken(Reserved)),
        (vec![0xa1, 0x80], broken(Reserved)),
        (vec![0x91, 0x80], broken(Reserved)),
        (vec![0xc9, 0x80], broken(Reserved)),
        (vec![0x81, 0x00], broken(Masking)),
        (vec![0x81, 0x7f], broken(Masking)),
        (vec![0x89, 0x00], broken(Masking)),
        // In pieces, or too long; how long is not even waited for.
        (vec![0x08, 0x80], broken(Control)),
        (vec![0x09, 0x80], broken(Control)),
        (vec![0x0a, 0x80], broken(Control)),
        (vec![0x88, 0xfe], broken(Control)),
        (vec![0x89, 0xfe], broken(Control)),
        (vec![0x8a, 0xff], broken(Control)),
        // Nothing goes on, or something else should.
        (vec![0x80, 0x80], broken(Continuation)),
        (vec![0x00, 0x80], broken(Continuation)),
        (
            [masked(0x01, b"a"), vec![0x81, 0x80]].concat(),
            broken(Continuation),
        ),
        (
            [masked(0x01, b""), vec![0x02, 0x80]].concat(),
            broken(Continuation),
        ),
        // The mask has not come yet.
        (long(0x81, LIMIT as u64 + 1), Seen::TooLarge),
        (long(0x82, 1 << 63), Seen::TooLarge),
        (long(0x82, u64::MAX), Seen::TooLarge),
        (
            [masked(0x01, b"a"), long(0x80, LIMIT as u64)].concat(),
            Seen::TooLarge,
        ),
        (masked(0x81, b"\xff"), Seen::NotUtf8),
        (
            [masked(0x01, b"\xc3"), masked(0x80, b"\xc3")].concat(),
            Seen::NotUtf8,
        ),
        (close(b"\x03"), broken(NoCode)),
        (close(b"\x03\xe8\xff"), Seen::NotUtf8),
    ];
    for bits in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        table.push((vec![0x80 | bits, 0x80], broken(Opcode(bits))));
    }
    for bad in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
        table.push((code(bad), broken(Code(bad))));
    }
    for good in [
        1000, 1001, 1002, 1003, 1007, 1011, 1012, 1014, 3000, 3999, 4000, 4999,
    ] {
        table.push((code(good), Seen::Goodbye(format!("close code {good}"))));
    }
    for (bytes, seen) in table {
        for at_once in [usize::MAX, 1] {
            let found = feed(&mut server(), &bytes, at_once);
            assert_eq!(found, std::slice::from_ref(&seen), "{bytes:x?}");
        }
    }
    // There is a limit in any case.
    let mut unlimited = Frames::new(Role::Server, usize::MAX);
    let found = feed(&mut unlimited, &long(0x82, u64::MAX), usize::MAX);
    assert_eq!(found, [Seen::TooLarge]);
    // A client is not sent masks.
    let mut client = Frames::new(Role::Client, LIMIT);
    assert_eq!(feed(&mut client, &[0x81, 0x80], 2), [broken(Masking)]);
}

#[test]
fn lengths_need_not_be_short() {
    let medium = [&[0x81, 0xfe, 0, 2][..], &[0; 4], b"hi"].concat();
    let long = [&[0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 2][..], &[0; 4], b"hi"].concat();
    let all = [medium, long].concat();
    assert_eq!(read(&all), vec![Seen::Message(b"hi".to_vec()); 2]);
}

#[test]
fn nothing_but_the_bytes_matters() {
    let mut bytes = masked(0x01, b"{\"a\":");
    bytes.extend(masked(0x89, b"there?"));
    bytes.extend(masked(0x00, b"\"\xc3"));
    bytes.extend(masked(0x8a, b"here"));
    bytes.extend(masked(0x80, b"\xb6\"}"));
    bytes.extend(masked(0x81, b""));
    bytes.extend(masked(0x82, b"\xff"));
    bytes.extend(masked(0x81, &[b'y'; 300]));
    bytes.extend(masked(0x01, b""));
    bytes.extend(masked(0x80, b""));
    bytes.extend(masked(0x88, b"\x0f\xa1bye"));
    let expected = [
        Seen::Ping(b"there?".to_vec()),
        Seen::Message("{\"a\":\"ö\"}".into()),
        Seen::Message(vec![]),
        Seen::Message(b"\xff".to_vec()),
        Seen::Message(vec![b'y'; 300]),
        Seen::Message(vec![]),
        Seen::Goodbye("close code 4001: bye".into()),
    ];
    for at_once in 1..=bytes.len() {
        let mut frames = server();
        assert_eq!(feed(&mut frames, &bytes, at_once), expected, "{at_once}");
        assert!(!frames.is_amid_message());
    }
    for cut in 0..=bytes.len() {
        let mut frames = server();
        let mut found = feed(&mut frames, &bytes[..cut], usize::MAX);
        found.extend(feed(&mut frames, &bytes[cut..], usize::MAX));
        assert_eq!(found, expected, "{cut}");
    }
}

#[test]
fn control_frames_may_stand_between_pieces() {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for n in 0..50_u8 {
        bytes.extend(masked(if n == 0 { 0x02 } else { 0x00 }, &[n; 100]));
        bytes.extend(masked(0x89, &[n]));
        bytes.extend(masked(0x8a, &[n; 125]));
        expected.push(Seen::Ping(vec![n]));
    }
    let mut frames = server();
    assert_eq!(feed(&mut frames, &bytes, usize::MAX), expected);
    assert!(frames.is_amid_message());
    let whole: Vec<u8> = (0..50).flat_map(|n| [n; 100]).collect();
    let last = feed(&mut frames, &masked(0x80, b""), usize::MAX);
    assert_eq!(last, [Seen::Message(whole)]);
    assert!(!frames.is_amid_message());
    frames.rest().unwrap();
    assert_eq!(frames.room(), 0);
    // An end may stand there, too.
    let end = [masked(0x01, b"a"), masked(0x88, b"")].concat();
    assert_eq!(read(&end), [Seen::Goodbye("it gave no reason".into())]);
}

#[test]
fn every_form_of_a_length_is_read() {
    for role in [Role::Server, Role::Client] {
        let mask = (role == Role::Server).then_some(MASK);
        for length in [0, 1, 124, 125, 126, 127, 65_535, 65_536, LIMIT - 1, LIMIT] {
            let payload = Dice(length as u64 + 1).text(length).into_bytes();
            let mut frame = BytesMut::new();
            write_frame(&mut frame, Opcode::Text, &payload, mask);
            let mut frames = Frames::new(role, LIMIT);
            for at_once in [usize::MAX, 1000] {
                let found = feed(&mut frames, &frame, at_once);
                assert!(found == [Seen::Message(payload.clone())], "{length}");
            }
        }
    }
}

#[test]
fn the_limit_is_that_of_a_message() {
    for limit in [0, 1, 124, 125, 126, 65_535, 65_536, 100_000] {
        let payload = vec![b'x'; limit + 1];
        let (fits, _) = payload.split_at(limit);
        let fitting = [Seen::Message(fits.to_vec())];
        let fresh = || Frames::new(Role::Server, limit);
        let all = |bytes: &[u8]| feed(&mut fresh(), bytes, usize::MAX);
        assert!(all(&masked(0x81, fits)) == fitting, "{limit}");
        assert!(all(&masked(0x81, &payload)) == [Seen::TooLarge], "{limit}");
        // In pieces, and those may be empty.
        let (one, two) = fits.split_at(limit / 2);
        let open = [masked(0x01, one), masked(0x00, two), masked(0x00, b"")].concat();
        let whole = [open.clone(), masked(0x80, b"")].concat();
        assert!(all(&whole) == fitting, "{limit}");
        let past = [open, masked(0x80, b"x")].concat();
        assert!(all(&past) == [Seen::TooLarge], "{limit}");
        // Control frames have a limit of their own.
        let ping = masked(0x89, &[b'p'; 125]);
        assert_eq!(all(&ping), [Seen::Ping(vec![b'p'; 125])]);
    }
}

#[test]
fn memory_follows_what_came_in() {
    let frame = masked(0x81, &vec![b'x'; LIMIT]);
    let mut frames = server();
    let mut fed = 0;
    for piece in frame.chunks(1000) {
        feed(&mut frames, piece, usize::MAX);
        fed += piece.len();
        let room = frames.room();
        assert!(room <= (2 * fed).max(KEPT), "{room} for {fed}");
        assert!(room <= frame.len().max(KEPT), "{room}");
    }
    assert!(!frames.is_amid_message());
    frames.buffer_mut();
    assert!(frames.room() <= KEPT);
    frames.rest().unwrap();
    assert_eq!(frames.room(), 0);
    // In pieces, it is not more than the message either.
    for piece in vec![b'x'; LIMIT].chunks(999).enumerate() {
        let first = if piece.0 == 0 { 0x01 } else { 0x00 };
        feed(&mut frames, &masked(first, piece.1), usize::MAX);
        assert!(frames.room() <= LIMIT + KEPT);
    }
    frames.rest().unwrap();
    assert!((LIMIT..=LIMIT + 1).contains(&frames.room()));
    feed(&mut frames, &masked(0x80, b""), usize::MAX);
    frames.rest().unwrap();
    assert_eq!(frames.room(), 0);
}

#[test]
fn a_message_is_lent_from_where_it_was_read() {
    let mut frames = server();
    frames
        .buffer_mut()
        .extend_from_slice(&masked(0x81, b"hello"));
    let place = frames.input.as_ptr_range();
    assert!(matches!(frames.next(), Ok(Some(Found::Message))));
    assert!(place.contains(&frames.message().as_ptr()));
    assert_eq!(frames.message(), b"hello");
}

#[test]
fn masks_are_taken_off_at_every_length() {
    for length in 0..70 {
        let plain = Dice(99).text(length).into_bytes();
        let mut masked = plain.clone();
        apply(MASK, &mut masked);
        for (n, byte) in masked.iter().enumerate() {
            assert_eq!(*byte, plain[n] ^ MASK[n % 4]);
        }
    }
}

/// Writes messages in random pieces with another implementation; what should be
/// found in them.
fn write_randomly(dice: &mut Dice, role: tungstenite::protocol::Role) -> (Vec<u8>, Vec<Seen>) {
    let mut other = WebSocket::from_raw_socket(Cursor::new(Vec::new()), role, None);
    let mut expected = Vec::new();
    for _ in 0..1 + dice.roll(20) {
        let length = [10, 130, 1000, 70_000][dice.roll(4)];
        let length = dice.roll(length);
        let text = dice.text(length);
        let mut kind = [Data::Text, Data::Binary][dice.roll(2)];
        let mut rest = text.as_bytes();
        while dice.roll(3) > 0 {
            let (piece, later) = rest.split_at(dice.roll(rest.len() + 1));
            let frame = Frame::message(piece.to_vec(), OpCode::Data(kind), false);
            other.write(Message::Frame(frame)).unwrap();
            (rest, kind) = (later, Data::Continue);
            if dice.roll(3) == 0 {
                let length = dice.roll(126);
                let ping = dice.text(length).into_bytes();
                other.write(Message::Ping(ping.clone().into())).unwrap();
                expected.push(Seen::Ping(ping));
            }
        }
        let frame = Frame::message(rest.to_vec(), OpCode::Data(kind), true);
        other.write(Message::Frame(frame)).unwrap();
        expected.push(Seen::Message(text.into_bytes()));
    }
    other.flush().unwrap();
    (other.get_ref().get_ref().clone(), expected)
}

#[test]
fn another_implementation_is_read() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for round in 0..200 {
        let (theirs, ours) = match round % 2 {
            0 => (tungstenite::protocol::Role::Client, Role::Server),
            _ => (tungstenite::protocol::Role::Server, Role::Client),
        };
        let (bytes, expected) = write_randomly(&mut dice, theirs);
        let at_once = 1 + dice.roll(100_000);
        let found = feed(&mut Frames::new(ours, LIMIT), &bytes, at_once);
        assert!(found == expected, "round {round}, {at_once} at once");
    }
}

#[test]
fn another_implementation_reads() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut bytes, mut texts) = (BytesMut::new(), Vec::new());
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 200_000] {
        let text = dice.text(length);
        let mask = (dice.roll(1 << 30) as u32).to_be_bytes();
        write_frame(&mut bytes, Opcode::Text, text.as_bytes(), Some(mask));
        texts.push(text);
    }
    let role = tungstenite::protocol::Role::Server;
    let mut other = WebSocket::from_raw_socket(Cursor::new(bytes.to_vec()), role, None);
    for text in texts {
        assert!(other.read().unwrap().into_text().unwrap() == text.as_str());
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let mut dice = Dice(77);
    for _ in 0..20_000 {
        let length = dice.roll(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| dice.roll(256) as u8).collect();
        // Most of them would end at the first byte.
        for place in [0, 8, 16] {
            if let Some([first, second]) = bytes.get_mut(place..place + 2) {
                *first &= 0x8b;
                *second |= 0x80;
            }
        }
        let whole = feed(&mut server(), &bytes, usize::MAX);
        assert_eq!(feed(&mut server(), &bytes, 1), whole, "{bytes:x?}");
    }
}
