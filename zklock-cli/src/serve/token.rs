//! The token without which nothing is deleted.

use std::fmt;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::exit::Failure;

/// Whoever guesses wrong waits so long, one after the other.
const PENALTY: Duration = Duration::from_millis(250);

pub(super) struct Token {
    text: String,
    guesses: Mutex<()>,
}

impl Token {
    /// Reads the token of a file. Blanks around it do not belong to it.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(file);
        let failed = |why: &str| Failure::own(format!("--token-file {}: {why}", file.display()));
        let text = text.map_err(|error| failed(&error.to_string()))?;
        match text.trim() {
            "" => Err(failed(
                "the file is empty; it needs a token, such as `openssl rand -hex 16` prints",
            )),
            // It goes into a header.
            token if !token.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(failed("a token is one word of ASCII letters, digits and signs"))
            }
            token => Ok(Token { text: token.to_owned(), guesses: Mutex::new(()) }),
        }
    }

    /// Whether an `Authorization` header has it.
    pub(super) async fn is_in(&self, header: Option<&[u8]>) -> bool {
        let token = header.and_then(|header| header.strip_prefix(b"Bearer "));
        if token.is_some_and(|token| are_equal(token, self.text.as_bytes())) {
            return true;
        }
        let _turn = self.guesses.lock().await;
        sleep(PENALTY).await;
        false
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Compares in a time that tells nothing of how much is right. It may tell the length.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_equal() {
        assert!(are_equal(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "secreT"] {
            assert!(!are_equal(wrong.as_bytes(), b"secret"), "{wrong}");
        }
    }
}
