//! ZooKeeper's wire format, as far as tests need it.

/// The operation of a request, as in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "ZooKeeper's own names")]
#[non_exhaustive]
pub enum OpCode {
    /// The first frame of a connection either way. It has no header.
    Connect,
    /// The server's word that a watch fired.
    Notification,
    Create,
    Delete,
    Exists,
    GetData,
    SetData,
    GetAcl,
    SetAcl,
    GetChildren,
    Sync,
    Ping,
    /// `getChildren` with the parent's stat.
    GetChildren2,
    Check,
    Multi,
    /// `create` with the node's stat in the reply.
    Create2,
    Reconfig,
    CheckWatches,
    RemoveWatches,
    CreateContainer,
    DeleteContainer,
    CreateTtl,
    MultiRead,
    Auth,
    SetWatches,
    Sasl,
    GetEphemerals,
    GetAllChildrenNumber,
    SetWatches2,
    AddWatch,
    CloseSession,
    /// Any other number.
    Other(i32),
}

impl OpCode {
    /// Whether a session sends it only to be heard: pings, and the read of its root's ACL each T/12.
    pub fn keeps_alive(self) -> bool {
        matches!(self, OpCode::Ping | OpCode::GetAcl)
    }
}

use OpCode as Op;

const NUMBERS: [(i32, OpCode); 31] = [
    (-10, Op::Connect),
    (0, Op::Notification),
    (1, Op::Create),
    (2, Op::Delete),
    (3, Op::Exists),
    (4, Op::GetData),
    (5, Op::SetData),
    (6, Op::GetAcl),
    (7, Op::SetAcl),
    (8, Op::GetChildren),
    (9, Op::Sync),
    (11, Op::Ping),
    (12, Op::GetChildren2),
    (13, Op::Check),
    (14, Op::Multi),
    (15, Op::Create2),
    (16, Op::Reconfig),
    (17, Op::CheckWatches),
    (18, Op::RemoveWatches),
    (19, Op::CreateContainer),
    (20, Op::DeleteContainer),
    (21, Op::CreateTtl),
    (22, Op::MultiRead),
    (100, Op::Auth),
    (101, Op::SetWatches),
    (102, Op::Sasl),
    (103, Op::GetEphemerals),
    (104, Op::GetAllChildrenNumber),
    (105, Op::SetWatches2),
    (106, Op::AddWatch),
    (-11, Op::CloseSession),
];

impl OpCode {
    /// Returns the operation with this number.
    pub fn from_number(number: i32) -> Self {
        NUMBERS.iter().find(|(n, _)| *n == number).map_or(Self::Other(number), |(_, op)| *op)
    }

    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::Other(number) => number,
            op => NUMBERS.iter().find(|(_, o)| *o == op).map_or(0, |(n, _)| *n),
        }
    }

    /// Tells whether the operation makes a node.
    pub fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::Create2 | Self::CreateContainer | Self::CreateTtl)
    }
}

/// Reads values from the front of a frame; `None` where the frame is too short.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        Some(self.take(1)?[0] != 0)
    }

    /// A length of −1 means "no value" and reads as empty.
    pub(crate) fn buffer(&mut self) -> Option<&'a [u8]> {
        let len = self.int()?;
        self.take(usize::try_from(len.max(0)).ok()?)
    }

    pub(crate) fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.buffer()?).ok()
    }
}

/// Writes values to the end of a frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(crate) fn buffer(mut self, value: &[u8]) -> Self {
        self = self.int(i32::try_from(value.len()).expect("a frame is far below 2 GiB"));
        self.0.extend(value);
        self
    }

    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend(value);
        self
    }

    /// Returns the whole with its length in front.
    pub(crate) fn frame(self) -> Vec<u8> {
        Self::default().buffer(&self.0).0
    }
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, OpCode};

    #[test]
    fn numbers_map_both_ways() {
        for (number, op) in NUMBERS {
            assert_eq!((OpCode::from_number(number), op.number()), (op, number));
        }
        assert_eq!(OpCode::from_number(777), OpCode::Other(777));
        assert_eq!(OpCode::Other(777).number(), 777);
    }
}
