//! The numbers by which the kernel knows nodes. The source has two if it is not the root of the file system (`reroot`).

use crate::passthrough::NodeId;

/// The number of the source when it is not the root of the file system. Numbers that [`crate::passthrough`] assigns follow
/// it.
pub(super) const SOURCE: u64 = 1 << 63;

/// The node that the kernel calls `number`.
pub(super) fn node(number: u64) -> NodeId {
    if number == SOURCE { NodeId::ROOT } else { NodeId(number) }
}

/// The numbers that the kernel may use for `node`: the source has two, and the kernel does not know one of them.
pub(super) fn numbers(node: NodeId) -> impl Iterator<Item = u64> {
    [node.0].into_iter().chain((node == NodeId::ROOT).then_some(SOURCE))
}
