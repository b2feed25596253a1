//! The key of a handshake, and the server's proof that it has read the key.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

/// RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A client's key: 16 random bytes.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(STANDARD.encode(bytes))
}

/// Returns the server's proof for a key.
pub(super) fn proof(key: &[u8]) -> String {
    let mut digest = Sha1::new();
    digest.update(key);
    digest.update(GUID);
    STANDARD.encode(digest.digest().bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_of_the_specification_is_proven() {
        let proof = super::proof(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn another_implementation_proves_the_same() {
        let key = super::random().expect("the system has random bytes");
        assert_eq!(key.len(), 24);
        let other = tungstenite::handshake::derive_accept_key(key.as_bytes());
        assert_eq!(super::proof(key.as_bytes()), other);
    }
}
