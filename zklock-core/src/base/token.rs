//! The fencing token.

use std::fmt;
use std::str::FromStr;

/// A value that grows with every grant of a lock, for the protected resource to check.
///
/// Of two grants that exclude each other, the later has the greater token. It consists of the czxid
/// of the holder's node, which grows over the whole ensemble even if the lock's directory is
/// removed in between, and of a counter of the grants that shared this node.
///
/// As text it is 16 hex digits, `-`, and 16 hex digits; in binary it is 16 bytes, big endian. Both
/// sort like the tokens, so a column `char(33)` or `binary(16)` can hold one.
///
/// ```
/// use zklock::FencingToken;
///
/// let token = FencingToken::new(0x1f, 2);
/// assert_eq!(token.to_string(), "000000000000001f-0000000000000002");
/// assert_eq!("000000000000001f-0000000000000002".parse(), Ok(token));
/// assert!(token < FencingToken::new(0x20, 0));
/// assert!(token.to_string() < FencingToken::new(0x20, 0).to_string());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    czxid: u64,
    grant: u64,
}

impl FencingToken {
    /// Creates a token from the czxid of a node and the number of the grant on that node.
    ///
    /// ```
    /// use zklock::FencingToken;
    ///
    /// // Greater than the first grant on the node, and smaller than any on a later node.
    /// assert!(FencingToken::new(0x1f, 2) > FencingToken::new(0x1f, 1));
    /// assert!(FencingToken::new(0x1f, 2) < FencingToken::new(0x20, 1));
    /// ```
    pub const fn new(czxid: u64, grant: u64) -> Self {
        FencingToken { czxid, grant }
    }

    /// Returns the czxid of the node behind the grant.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// println!("0x{:x}", guard.fencing_token().czxid()); // `cZxid` in `zkCli.sh stat`.
    /// # assert!(guard.fencing_token().czxid() > 0);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn czxid(self) -> u64 {
        self.czxid
    }

    /// Whether it is that of the first grant of a node.
    pub(crate) const fn is_first(self) -> bool {
        self.grant == 0
    }

    /// Returns the token as 16 bytes that sort like the tokens.
    ///
    /// ```
    /// use zklock::FencingToken;
    ///
    /// let bytes = FencingToken::new(0x1f, 2).to_bytes(); // For a column `binary(16)`.
    /// assert_eq!((bytes[7], bytes[15]), (0x1f, 2));
    /// ```
    pub const fn to_bytes(self) -> [u8; 16] {
        (((self.czxid as u128) << 64) | self.grant as u128).to_be_bytes()
    }

    /// Reads the bytes that [`to_bytes`](Self::to_bytes) returned.
    ///
    /// ```
    /// use zklock::FencingToken;
    ///
    /// let token = FencingToken::new(0x1f, 2);
    /// assert_eq!(FencingToken::from_bytes(token.to_bytes()), token);
    /// ```
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        FencingToken { czxid: (both >> 64) as u64, grant: both as u64 }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.czxid, self.grant)
    }
}

/// The error of parsing a text that is not a fencing token.
///
/// ```
/// use zklock::{FencingToken, ParseTokenError};
///
/// let error: Option<ParseTokenError> = "17".parse::<FencingToken>().err();
/// assert!(error.is_some_and(|error| error.to_string().contains("16 hex digits")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fencing token is 16 hex digits, `-` and 16 hex digits")]
#[non_exhaustive]
pub struct ParseTokenError;

impl FromStr for FencingToken {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseTokenError> {
        let (czxid, grant) = text.split_once('-').ok_or(ParseTokenError)?;
        let half = |digits: &str| {
            let plain = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten().ok_or(ParseTokenError)
        };
        Ok(FencingToken { czxid: half(czxid)?, grant: half(grant)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_sort_as_tokens_do() {
        let tokens = [
            FencingToken::new(0, 1),
            FencingToken::new(9, u64::MAX),
            FencingToken::new(10, 0),
            FencingToken::new(u64::MAX, 3),
        ];
        for pair in tokens.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].to_string() < pair[1].to_string());
            assert!(pair[0].to_bytes() < pair[1].to_bytes());
            assert_eq!(FencingToken::from_bytes(pair[0].to_bytes()), pair[0]);
        }
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["", "-", "1-2", "+00000000000001f-0000000000000002", "x"] {
            assert_eq!(text.parse::<FencingToken>(), Err(ParseTokenError), "{text}");
        }
    }
}
