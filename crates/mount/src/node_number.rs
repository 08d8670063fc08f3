//! The numbers by which the kernel knows nodes. The source has two if it is not the root of the file system (`reroot`).

use crate::passthrough::NodeId;

/// The number of the source when it is not the root of the file system. Numbers that [`crate::passthrough`] assigns follow
/// it.
pub(super) const SOURCE: u64 = 1 << 63;

/// Marks the alias of what is neither a regular file nor a symbolic link.
const STRICT: u64 = 1 << 60;

/// The number of the alias of `node` ([`crate::alias`]); `None` if it has none.
pub(super) fn alias(node: NodeId, is_strict: bool) -> Option<u64> {
    let mark = NodeId::MARK | if is_strict { STRICT } else { 0 };
    let has_none = node == NodeId::ROOT || node.0 & (NodeId::MARK | STRICT) != 0;
    (!has_none).then_some(node.0 | mark)
}

pub(super) fn is_alias(number: u64) -> bool {
    number & NodeId::MARK == NodeId::MARK
}

/// Whether this is such an alias.
pub(super) fn is_strict(number: u64) -> bool {
    is_alias(number) && number & STRICT != 0
}

/// The node that the kernel calls `number`.
pub(super) fn node(number: u64) -> NodeId {
    match number {
        SOURCE => NodeId::ROOT,
        alias if is_alias(alias) => NodeId(alias & !(NodeId::MARK | STRICT)),
        number => NodeId(number),
    }
}

/// The numbers that the kernel may use for `node`: the source has two, and the kernel does not know one of them.
pub(super) fn numbers(node: NodeId) -> impl Iterator<Item = u64> {
    [node.0].into_iter().chain((node == NodeId::ROOT).then_some(SOURCE))
}
