//! A node to be created in a queue, and how it is found again.

use crate::coordinator::node::NodeKind;

/// A node to be created in a queue.
///
/// ```
/// use zklock::layout::Numbered;
/// use zklock::driver::{Attempt, LockDriver};
/// use zklock::{Mode, Owner};
///
/// let node = Numbered::dlock().node(&Attempt::new(), Mode::Mutex, &Owner::here(None));
/// assert_eq!(node.prefix, "sub_");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewNode {
    /// The beginning of its name, to which ZooKeeper appends ten digits; the whole name of a node
    /// that is not sequential.
    pub prefix: String,
    /// Its data.
    pub payload: Vec<u8>,
    /// How the node is found again if the reply to its creation is lost.
    pub proof: Proof,
    /// [`NodeKind::EphemeralSequential`], or [`NodeKind::Ephemeral`] for a single name that every
    /// contender tries to create.
    pub kind: NodeKind,
}

/// How a node is recognised as one's own. In every case its ZooKeeper session must be the present
/// one.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::{Curator, Numbered, OneNode};
/// use zklock::driver::Proof;
///
/// assert_eq!(Curator.proof(), Proof::Name);
/// assert_eq!(Numbered::lock().proof(), Proof::Payload);
/// assert_eq!(OneNode.proof(), Proof::Owner);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// By its name, which begins with the unique prefix.
    Name,
    /// By its data, the payload, which is unique; if somebody has overwritten them, by its owner. Such
    /// nodes are created one at a time.
    Payload,
    /// Only by its owner: names and data are the same for all. Such nodes are created one at a
    /// time.
    Owner,
}

impl NewNode {
    /// Returns a sequential node with this prefix and no data, which is found again by its name.
    ///
    /// ```
    /// use zklock::driver::{NewNode, NodeKind, Proof};
    ///
    /// let node = NewNode::new("ticket-7-");
    /// assert_eq!((node.proof, node.kind), (Proof::Name, NodeKind::EphemeralSequential));
    /// ```
    pub fn new(prefix: impl Into<String>) -> Self {
        let (proof, kind) = (Proof::Name, NodeKind::EphemeralSequential);
        NewNode { prefix: prefix.into(), payload: Vec::new(), proof, kind }
    }

    /// Sets its data.
    ///
    /// ```
    /// use zklock::driver::NewNode;
    ///
    /// assert_eq!(NewNode::new("ticket-7-").payload("10.0.0.7").payload, b"10.0.0.7");
    /// ```
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets how it is found again.
    ///
    /// ```
    /// use zklock::driver::{NewNode, Proof};
    ///
    /// let node = NewNode::new("ticket-").payload("7").proof(Proof::Payload);
    /// assert_eq!(node.proof, Proof::Payload);
    /// ```
    pub fn proof(mut self, proof: Proof) -> Self {
        self.proof = proof;
        self
    }

    /// Sets its kind.
    ///
    /// ```
    /// use zklock::driver::{NewNode, NodeKind, Proof};
    ///
    /// let only_one = NewNode::new("lock").proof(Proof::Owner).kind(NodeKind::Ephemeral);
    /// assert_eq!(only_one.kind, NodeKind::Ephemeral);
    /// ```
    pub fn kind(mut self, kind: NodeKind) -> Self {
        self.kind = kind;
        self
    }
}
