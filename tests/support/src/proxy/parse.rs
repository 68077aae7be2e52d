//! Reads what rules and the log want to know of a frame.

use crate::wire::{OpCode, Reader};

/// A request's header and path.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) xid: i32,
    pub(super) opcode: OpCode,
    pub(super) path: Option<String>,
}

/// A reply's header; `body` is what follows.
#[derive(Debug)]
pub(super) struct ReplyHeader<'a> {
    pub(super) xid: i32,
    pub(super) err: i32,
    pub(super) body: Reader<'a>,
}

/// Reads a request behind its length prefix.
pub(super) fn request(frame: &[u8]) -> Option<Request> {
    let mut reader = Reader(frame);
    let (xid, opcode) = (reader.int()?, OpCode::from_number(reader.int()?));
    let path = match opcode {
        OpCode::Ping | OpCode::CloseSession | OpCode::Auth | OpCode::Sasl | OpCode::Reconfig => {
            None
        }
        OpCode::SetWatches | OpCode::SetWatches2 => watched_paths(reader),
        OpCode::Multi | OpCode::MultiRead => Some(paths_of_multi(reader)),
        _ => reader.string().map(str::to_owned),
    };
    Some(Request { xid, opcode, path })
}

/// Reads a reply's header behind its length prefix.
pub(super) fn reply(frame: &[u8]) -> Option<ReplyHeader<'_>> {
    let mut reader = Reader(frame);
    let (xid, _zxid, err) = (reader.int()?, reader.long()?, reader.int()?);
    Some(ReplyHeader { xid, err, body: reader })
}

/// Reads the path of a notification's body.
pub(super) fn notified_path(mut body: Reader<'_>) -> Option<String> {
    let (_kind, _state) = (body.int()?, body.int()?);
    body.string().map(str::to_owned)
}

fn watched_paths(mut reader: Reader<'_>) -> Option<String> {
    let _zxid = reader.long()?;
    let mut paths = Vec::new();
    while let Some(count) = reader.int() {
        for _ in 0..count {
            paths.push(reader.string()?);
        }
    }
    Some(paths.join(","))
}

fn paths_of_multi(mut reader: Reader<'_>) -> String {
    let mut paths = Vec::new();
    while let Some(path) = next_path(&mut reader) {
        paths.push(path);
    }
    paths.join(",")
}

/// Reads one operation of a `multi` to its end, or `None` at the end of all.
fn next_path<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    let opcode = OpCode::from_number(reader.int()?);
    let (done, _err) = (reader.bool()?, reader.int()?);
    if done {
        return None;
    }
    let path = reader.string()?;
    match opcode {
        OpCode::Delete | OpCode::Check => _ = reader.int()?,
        OpCode::SetData => _ = (reader.buffer()?, reader.int()?),
        OpCode::GetChildren | OpCode::GetData => _ = reader.bool()?,
        op if op.is_create() => {
            let _data = reader.buffer()?;
            for _ in 0..reader.int()? {
                let (_perms, _scheme, _id) = (reader.int()?, reader.buffer()?, reader.buffer()?);
            }
            let _mode = reader.int()?;
            if op == OpCode::CreateTtl {
                let _ttl = reader.long()?;
            }
        }
        _ => return None,
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::request;
    use crate::wire::{OpCode, Writer};

    #[test]
    fn multi_has_all_paths() {
        let sub = |writer: Writer, op: OpCode| writer.int(op.number()).bool(false).int(-1);
        let mut writer = Writer::default().int(7).int(OpCode::Multi.number());
        writer = sub(writer, OpCode::Check).buffer(b"/a").int(-1);
        writer = sub(writer, OpCode::Create).buffer(b"/b").buffer(b"data").int(1);
        writer = writer.int(31).buffer(b"world").buffer(b"anyone").int(0);
        writer = sub(writer, OpCode::SetData).buffer(b"/c").buffer(b"x").int(2);
        writer = sub(writer, OpCode::Delete).buffer(b"/d").int(-1);
        writer = writer.int(-1).bool(true).int(-1);
        let request = request(&writer.0).unwrap();
        assert_eq!((request.xid, request.opcode), (7, OpCode::Multi));
        assert_eq!(request.path.as_deref(), Some("/a,/b,/c,/d"));
    }

    #[test]
    fn ping_has_no_path() {
        let ping = Writer::default().int(-2).int(11);
        let request = request(&ping.0).unwrap();
        assert_eq!((request.opcode, request.path), (OpCode::Ping, None));
    }
}
