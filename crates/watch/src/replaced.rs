//! Notices that a given path leads to another directory than the watched one, and watches that instead.
//!
//! Marks and watches belong to a directory, not to its path. No event says that the path leads elsewhere if a directory above it is
//! renamed, something is mounted on it or a symbolic link in it is changed, so the path is looked up from time to time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use namegate_core::name::display::shown;
use namegate_scan::source::Fault;
use namegate_sys::mounts;
use nix::sys::stat::stat;

use super::core::{Origin, ReadTarget, RescanFilter};
use super::root::WatchRoot;
use super::{Watch, Watched};

/// The time between two checks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

impl Watch {
    /// Checks the given paths if it is time to. Pending events of the watched directories come first, but a busy file system does
    /// not put the check off for ever.
    pub(super) fn check_roots(&mut self, is_drained: bool) {
        let least = if is_drained { INTERVAL } else { INTERVAL * 5 };
        if self.checked.is_some_and(|checked| checked.elapsed() < least) {
            return;
        }
        self.checked = Some(Instant::now());
        for index in 0..self.core.roots.len() {
            let root = &self.core.roots[index];
            let Some(given) = root.given.clone() else { continue };
            match stat(&given).map(|stat| (stat.st_dev, stat.st_ino)) {
                Ok(id) if id == root.id && !root.is_gone => {}
                Ok(_) => self.watch_replaced(index, given),
                Err(errno) => {
                    self.give_up(index, Fault { path: given, attempt: "watch", error: errno.into() })
                }
            }
        }
    }

    /// Watches the directory that is at the path of a root now. Every name in it is new there.
    fn watch_replaced(&mut self, index: usize, given: PathBuf) {
        let opened = WatchRoot::open(&given, &mounts::mounts().unwrap_or_default());
        let watched = opened.and_then(|root| {
            self.forget_root(index);
            self.core.roots[index] = WatchRoot { given: Some(given.clone()), ..root };
            self.watch_root(index, RescanFilter::All(Origin::Rescanned))
        });
        match watched {
            Ok(Watched { engine, .. }) => log::warn!(
                "{} leads to another directory now: watching that by {}, and reporting all bad names in it",
                shown(&given),
                engine.as_str()
            ),
            Err(fault) => self.give_up(index, fault),
        }
    }

    /// Stops watching a root until its path leads to a directory again.
    fn give_up(&mut self, index: usize, fault: Fault) {
        self.forget_root(index);
        if !std::mem::replace(&mut self.core.roots[index].is_gone, true) {
            log::warn!("{fault}; nothing in it is watched until it is back");
        }
    }

    fn forget_root(&mut self, index: usize) {
        self.core.tasks.retain(|task| !matches!(task.target, ReadTarget::Path { root, .. } if root == index));
        self.engines.iter_mut().for_each(|engine| engine.remove(index));
    }
}
