//! The thread that hears of changes in the source.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use namegate_sys::fanotify::{change_group, mark_changes, mark_opens, open_group};
use namegate_sys::fanotify_events::{FanotifyEvent, events};
use namegate_sys::lease::ignore_breaks;
use namegate_sys::mounts::mounts;
use namegate_sys::open::again;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::Fanotify;
use nix::unistd::{getpid, read};

use super::invalidator::{Invalidator, StaleEntries, everything_left};
use super::time_budget::TimeBudget;
use crate::passthrough::NodeId;
use crate::server::Server;

/// How long after a change everything is dropped again that it has changed.
const AGAIN: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(5)];

/// Events that come within this time are handled together, once they come fast.
const BATCH: Duration = Duration::from_millis(1);

/// What is remembered to be dropped again. More changes at once count as lost.
const MOST_AGAIN: usize = 200_000;

/// What hears of changes, before anything is served.
#[derive(Debug)]
pub(in super::super) struct ChangeListener {
    changes: Fanotify,
    opens: Fanotify,
    table: File,
    source: PathBuf,
}

impl ChangeListener {
    /// Listens for changes on the file system of `root`, which is the directory `source`.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(in super::super) fn new(root: impl AsFd, source: &Path) -> Result<Self, String> {
        let why = |errno: Errno| match errno {
            Errno::EPERM => "the server may not listen for changes (CAP_SYS_ADMIN)".into(),
            Errno::EINVAL | Errno::ENOSYS => {
                "this kernel does not report changes with files (Linux 5.17)".into()
            }
            errno => format!("changes of this file system are not reported: {}", errno.desc()),
        };
        let root = again(&root, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(why)?;
        let (changes, opens) = (change_group().map_err(why)?, open_group().map_err(why)?);
        mark_changes(&changes, &root).map_err(why)?;
        mark_opens(&opens, &root).map_err(why)?;
        ignore_breaks().map_err(why)?;
        let table = File::open("/proc/self/mountinfo").map_err(|error| format!("no mount table: {error}"))?;
        Ok(Self { changes, opens, table, source: source.into() })
    }

    /// Listens until `server` has ended. From now on replies may last.
    pub(in super::super) fn start(self, server: &Arc<Server>) -> io::Result<()> {
        let submounts = self.submounts();
        let weak = Arc::downgrade(server);
        let listening = Listening {
            invalidator: Invalidator::new(weak.clone()),
            server: weak,
            own: getpid().as_raw(),
            submounts,
            again: AGAIN.map(|_| VecDeque::new()),
            kept: 0,
            dropping: Vec::new(),
            moved: HashMap::new(),
            hears: self,
        };
        server.coherence.set_status(None);
        thread::Builder::new().name("changes".into()).spawn(move || listening.run()).map(drop)
    }

    /// What is mounted below the source, in this mount namespace.
    fn submounts(&self) -> BTreeSet<(PathBuf, u64)> {
        let all = mounts().unwrap_or_default().into_iter();
        let below = all.filter(|it| it.point != self.source && it.point.starts_with(&self.source));
        below.map(|it| (it.point, it.id)).collect()
    }
}

/// Who has made the events that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventsBy {
    Nobody,
    /// The server: it need not be woken for each of them.
    Itself,
    Others,
}

/// What changed, by one batch of events.
#[derive(Debug, Default)]
struct Changed {
    nodes: HashSet<NodeId>,
    names: HashMap<NodeId, HashSet<OsString>>,
    is_lost: bool,
    /// Names to which the server has renamed.
    moved: Vec<(NodeId, OsString)>,
}

impl Changed {
    fn stale(self) -> StaleEntries {
        let names = self.names.into_iter().map(|(parent, names)| (parent, names.into_iter().collect()));
        StaleEntries { nodes: self.nodes.into_iter().collect(), taken: names.collect::<Vec<_>>().into() }
    }
}

struct Listening {
    hears: ChangeListener,
    server: Weak<Server>,
    invalidator: Invalidator,
    /// This process.
    own: i32,
    submounts: BTreeSet<(PathBuf, u64)>,
    /// What is to be dropped again, and when, for each of [`AGAIN`].
    again: [VecDeque<(Instant, Arc<StaleEntries>)>; AGAIN.len()],
    /// How much that is.
    kept: usize,
    /// Names of others' changes that may not have been dropped for the last time.
    dropping: Vec<Weak<StaleEntries>>,
    /// Names to which the server has renamed, of events that may have overtaken some in the queue: the kernel merges them.
    moved: HashMap<NodeId, HashSet<OsString>>,
}

impl Listening {
    fn run(mut self) {
        let mut buffer = vec![0; 64 << 10];
        let mut budget = TimeBudget::new();
        if let Some(server) = self.server.upgrade().filter(|server| server.coherence.goes_on()) {
            self.drop_stale(everything_left(&server));
        }
        while let Some(server) = self.wait() {
            let events = self.read_events(&server, &mut buffer);
            self.drop_again(&server);
            if server.coherence.given.lock().is_full() {
                self.drop_all(&server);
            }
            if budget.is_exceeded() {
                self.pause(&server, budget.start_pause(), &mut buffer);
                budget.end_pause();
            }
            drop(server);
            match events {
                EventsBy::Others if budget.has_credit() => {}
                EventsBy::Nobody => {}
                EventsBy::Others | EventsBy::Itself => thread::sleep(BATCH),
            }
        }
    }

    /// Waits for events; `None` when the server has ended.
    fn wait(&mut self) -> Option<Arc<Server>> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let due = self.again.iter().filter_map(|queue| queue.front()).map(|(due, _)| *due).min();
        let patience =
            due.map_or(PATIENCE, |due| due.saturating_duration_since(Instant::now()).min(PATIENCE));
        let fds = [self.hears.changes.as_fd(), self.hears.opens.as_fd(), self.hears.table.as_fd()];
        let flags = [PollFlags::POLLIN, PollFlags::POLLIN, PollFlags::POLLPRI];
        let mut polled = [0, 1, 2].map(|i| PollFd::new(fds[i], flags[i]));
        // Rounded up, so that it does not poll before it is due.
        let timeout = PollTimeout::try_from(patience + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut polled, timeout);
        let has_mounts = polled[2]
            .revents()
            .is_some_and(|found| found.intersects(PollFlags::POLLPRI | PollFlags::POLLERR));
        let server = self.server.upgrade()?;
        if has_mounts {
            let submounts = self.hears.submounts();
            if submounts != self.submounts {
                self.submounts = submounts;
                self.drop_all(&server);
            }
        }
        Some(server)
    }

    /// Reads what has been reported, one buffer of each group at most.
    fn read_events(&mut self, server: &Server, buffer: &mut [u8]) -> EventsBy {
        let mut all = EventsBy::Nobody;
        for is_open in [false, true] {
            let group = if is_open { self.hears.opens.as_fd() } else { self.hears.changes.as_fd() };
            let len = read_some(group, buffer);
            if len == 0 {
                continue;
            }
            let parsed: Vec<_> = events(&buffer[..len]).collect();
            let is_own = |event: &Result<FanotifyEvent<'_>, _>| {
                event.as_ref().is_ok_and(|event| event.pid == self.own)
            };
            let by = if parsed.iter().all(is_own) { EventsBy::Itself } else { EventsBy::Others };
            // Before it is looked up who knows the files: see the proof.
            if by == EventsBy::Others {
                server.coherence.count_batch();
            }
            all = all.max(by);
            let mut changed = Changed::default();
            for event in parsed {
                match event {
                    Ok(event) if event.mask & libc::FAN_Q_OVERFLOW != 0 => changed.is_lost = true,
                    Ok(event) if is_open => note_open(server, self.own, &event, &mut changed),
                    Ok(event) => collect(server, self.own, &event, &mut changed),
                    Err(malformed) => {
                        log::error!("cannot parse an event of the kernel: {malformed}");
                        changed.is_lost = true;
                    }
                }
            }
            for (parent, name) in changed.moved.drain(..) {
                self.moved.entry(parent).or_default().insert(name);
            }
            if changed.is_lost {
                log::warn!(
                    "events of changes in the source were lost, more than fs.fanotify.max_queued_events at once: \
                     everything is asked again"
                );
                self.drop_all(server);
            } else {
                self.drop_stale(changed.stale());
            }
            self.drop_moved();
            if !is_open && len < buffer.len() / 2 {
                self.moved.clear();
            }
        }
        all
    }

    /// Has the kernel drop the names to which the server has renamed, while names of others' changes are being dropped.
    ///
    /// The kernel moves what it has cached under the old name, with its timeout, and names are dropped only after that: a
    /// client that renames has both directories locked.
    fn drop_moved(&mut self) {
        const MANY: usize = 1000;
        if self.moved.is_empty() && self.dropping.len() < MANY {
            return;
        }
        self.dropping.retain(|stale| stale.strong_count() > 0);
        if !self.dropping.is_empty() && !self.moved.is_empty() {
            let names = std::mem::take(&mut self.moved);
            self.invalidator.invalidate(&Arc::new(Changed { names, ..Changed::default() }.stale()));
        }
    }

    /// Has the kernel drop `stale`, now and again later.
    fn drop_stale(&mut self, stale: StaleEntries) {
        if stale.is_empty() {
            return;
        }
        let (now, stale) = (Instant::now(), Arc::new(stale));
        self.invalidator.invalidate(&stale);
        if !stale.taken.names.is_empty() {
            self.dropping.push(Arc::downgrade(&stale));
        }
        for (queue, delay) in self.again.iter_mut().zip(AGAIN) {
            self.kept += stale.len();
            queue.push_back((now + delay, stale.clone()));
        }
    }

    fn drop_again(&mut self, server: &Server) {
        let now = Instant::now();
        for queue in &mut self.again {
            while queue.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, stale)) = queue.pop_front() else { break };
                self.kept -= stale.len();
                self.invalidator.invalidate(&stale);
            }
        }
        if self.kept > MOST_AGAIN {
            self.again.iter_mut().for_each(VecDeque::clear);
            self.kept = 0;
            self.drop_all(server);
            // What is in this list is everything: it may be longer.
            self.kept = 0;
        }
    }

    /// Has the kernel drop everything.
    fn drop_all(&mut self, server: &Server) {
        server.tree.note_changed(None);
        let taken = server.coherence.take_names();
        self.drop_stale(StaleEntries { nodes: server.tree.all_nodes(), taken });
    }

    /// Lets replies expire for as long as `pause`, and events be lost.
    fn pause(&mut self, server: &Server, pause: Duration, buffer: &mut [u8]) {
        let why = "changes on the file system of the source, or of other parts of it, come too fast";
        log::warn!("{why}: caches expire by their timeouts for {} s", pause.as_secs());
        server.coherence.set_status(Some(why.into()));
        self.drop_all(server);
        let until = Instant::now() + pause;
        while Instant::now() < until && self.server.strong_count() > 1 {
            thread::sleep(Duration::from_millis(100));
            self.drop_again(server);
        }
        // The queue holds what came first; the rest was lost, and nothing lasts yet.
        for group in [self.hears.changes.as_fd(), self.hears.opens.as_fd()] {
            while read_some(group, buffer) > 0 {}
        }
        if server.dropper().is_some() {
            server.coherence.set_status(None);
        }
    }
}

/// Reads events, at most as many as `buffer` takes. Returns their length.
fn read_some(group: BorrowedFd<'_>, buffer: &mut [u8]) -> usize {
    read(group, buffer).unwrap_or_else(|errno| {
        if !matches!(errno, Errno::EAGAIN | Errno::EINTR) {
            log::error!("cannot read what changes in the source: {}", errno.desc());
        }
        0
    })
}

/// Adds what `event` reports, as far as the kernel knows it.
///
/// What the server has changed itself, it has changed for the kernel, which knows what that does to names and attributes. Only where an
/// entry has several names it may know another one.
fn collect(server: &Server, own: i32, event: &FanotifyEvent<'_>, changed: &mut Changed) {
    let config = server.active_config();
    if event.pid == own && config.equivalence.is_none() {
        note_moved(server, event, changed);
        return;
    }
    let known = |number: Option<u64>| number.and_then(|number| server.tree.numbered(number));
    changed.nodes.extend(event.target.and_then(|target| known(target.number())));
    const NAMES: u64 = libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_RENAME;
    for entry in [event.entry, event.from, event.to].into_iter().flatten() {
        let Some(parent) = known(entry.dir.number()) else { continue };
        if entry.name == "." {
            changed.nodes.insert(parent);
        } else if event.mask & NAMES != 0 {
            changed.nodes.insert(parent);
            if event.pid != own {
                server.tree.note_changed(Some(parent));
            }
            let gate = &config.serve.gate;
            let shown = gate.show(entry.name).map(|shown| shown.name.into_owned());
            let spelled = [entry.name.to_owned(), gate.key(entry.name).into_owned()];
            let can_be_cached = |name: &OsString| name.len() <= u8::MAX.into();
            let names = spelled.into_iter().chain(shown).filter(can_be_cached);
            changed.names.entry(parent).or_default().extend(names);
        }
    }
}

/// Adds the name to which the server has renamed.
fn note_moved(server: &Server, event: &FanotifyEvent<'_>, changed: &mut Changed) {
    let Some(entry) = event.to else { return };
    let Some(parent) = entry.dir.number().and_then(|number| server.tree.numbered(number)) else { return };
    let shown = server.active_config().serve.gate.show(entry.name).map(|shown| shown.name.into_owned());
    changed.moved.extend([entry.name.to_owned()].into_iter().chain(shown).map(|name| (parent, name)));
}

/// Adds the file that `event` says was opened, if its attributes are in lasting caches: who has opened it may write it.
fn note_open(server: &Server, own: i32, event: &FanotifyEvent<'_>, changed: &mut Changed) {
    if event.pid == own {
        return;
    }
    let Some(node) = event.target.and_then(|it| it.number()).and_then(|number| server.tree.numbered(number))
    else {
        return;
    };
    if server.tree.note_opened(node) {
        changed.nodes.insert(node);
    }
}
