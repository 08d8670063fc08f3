//! What serves requests, whatever the transport.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nix::errno::Errno;

use super::abi::ForgetOne;
use super::device::Device;
use super::journal::RequestJournal;
use super::reply::Reply;
use super::request::{Malformed, Operation, Request};

/// Serves requests.
pub trait Service: Send + Sync + 'static {
    /// Serves one request, here or elsewhere. What it leaves unanswered fails with EIO.
    fn serve(&self, request: &Request<'_>, reply: Reply);

    /// Subtracts lookups of nodes. Nobody waits for it.
    fn forget(&self, nodes: &mut dyn Iterator<Item = ForgetOne>);

    /// The client of the request `unique` got a signal. The request may not have come yet, or may be answered already.
    fn interrupt(&self, unique: u64);
}

/// Waits for the next message of `device`, and has `service` serve it.
///
/// # Errors
/// As [`Device::receive`]; ENODEV when the mount is gone.
pub fn serve_next(device: &Arc<Device>, buffer: &mut [u8], service: &dyn Service) -> io::Result<()> {
    let message = device.receive(buffer)?.ok_or(Errno::ENODEV)?;
    serve(service, device.journal(), message, |unique| Reply::to_device(device.clone(), unique));
    Ok(())
}

/// Has `service` serve the request in `message`, which is answered by what `reply` returns for its number. A panic costs the request, and not
/// the thread.
pub(super) fn serve(
    service: &(impl Service + ?Sized),
    journal: &dyn RequestJournal,
    message: &[u8],
    reply: impl FnOnce(u64) -> Reply,
) {
    let dispatched = catch_unwind(AssertUnwindSafe(|| dispatch(service, journal, message, reply)));
    if dispatched.is_err() {
        log::error!("a request failed because of a bug in namegate");
    }
}

fn dispatch(
    service: &(impl Service + ?Sized),
    journal: &dyn RequestJournal,
    message: &[u8],
    reply: impl FnOnce(u64) -> Reply,
) {
    let request = match Request::parse(message) {
        Ok(request) => request,
        Err(Malformed { unique, opcode }) => {
            log::error!("the kernel sent a malformed request ({opcode:?})");
            if let Some(unique) = unique {
                reply(unique).error(Errno::EIO);
            }
            return;
        }
    };
    match request.operation {
        Operation::Forget { lookups } => {
            let one = ForgetOne { nodeid: request.head.nodeid, nlookup: lookups };
            service.forget(&mut not_forgotten(journal, std::iter::once(one)));
        }
        Operation::BatchForget(nodes) => service.forget(&mut not_forgotten(journal, nodes)),
        // It has no reply. EAGAIN would make the kernel send it again for ever if the other request is answered meanwhile.
        Operation::Interrupt { unique } => service.interrupt(unique),
        _ => service.serve(&request, reply(request.head.unique)),
    }
}

/// The nodes of a FORGET without those that a previous server has forgotten.
fn not_forgotten(
    journal: &dyn RequestJournal,
    nodes: impl Iterator<Item = ForgetOne>,
) -> impl Iterator<Item = ForgetOne> {
    let done = journal.forgotten();
    (done + 1..).zip(nodes.skip(done as usize)).map(move |(count, node)| {
        journal.note_forgotten(count);
        node
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Knows how many nodes were forgotten.
    #[derive(Debug)]
    struct Forgetting(AtomicU64);

    impl RequestJournal for Forgetting {
        fn forgotten(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn note_forgotten(&self, count: u64) {
            self.0.store(count, Ordering::Relaxed);
        }
    }

    #[test]
    fn forgetting_goes_on_behind_what_a_previous_server_has_forgotten() {
        let journal = Forgetting(AtomicU64::new(0));
        let all = || (0..5).map(|nodeid| ForgetOne { nodeid, nlookup: 1 });
        let ids = |nodes: Vec<ForgetOne>| nodes.into_iter().map(|node| node.nodeid).collect::<Vec<_>>();
        assert_eq!(ids(not_forgotten(&journal, all()).take(2).collect()), [0, 1]);
        assert_eq!(journal.forgotten(), 2);
        assert_eq!(ids(not_forgotten(&journal, all()).collect()), [2, 3, 4]);
        assert_eq!((journal.forgotten(), not_forgotten(&journal, all()).count()), (5, 0));
    }
}
