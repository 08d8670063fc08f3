//! Capabilities of the calling thread, and its bounding set.
//!
//! Sources: capabilities(7), capget(2), PR_CAPBSET_DROP(2const), linux/capability.h. The sets belong to one thread; a new thread
//! inherits those of the thread that creates it.

use nix::errno::Errno;

/// A set of capabilities: bit `n` is the capability with the number `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// The set of the capabilities with these numbers.
    pub const fn from_numbers(numbers: &[u8]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < numbers.len() {
            bits |= 1 << numbers[i];
            i += 1;
        }
        Self(bits)
    }

    /// The capabilities that are in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Reports whether all capabilities of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `struct __user_cap_header_struct` of the kernel.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct` of the kernel: one half of the three sets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: sets of 64 bits, in two halves, the lower one first.
const VERSION: u32 = 0x2008_0522;

/// The highest number that a capability can have: the sets hold 64.
const LAST: u8 = 63;

/// The three sets of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySets {
    pub effective: CapabilitySet,
    /// The capabilities that can be made effective.
    pub permitted: CapabilitySet,
    /// The capabilities that a program started from here may keep.
    pub inheritable: CapabilitySet,
}

impl CapabilitySets {
    /// The sets of the calling thread.
    ///
    /// # Errors
    /// None known: every kernel that runs this program has the call.
    pub fn of_thread() -> Result<Self, Errno> {
        let header = CapabilityHeader { version: VERSION, pid: 0 };
        let mut halves = [CapabilityHalf::default(); 2];
        // SAFETY: the header says version 3, for which the kernel writes two elements; `halves` has as many.
        Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) })?;
        let whole = |part: fn(&CapabilityHalf) -> u32| {
            CapabilitySet(u64::from(part(&halves[0])) | u64::from(part(&halves[1])) << 32)
        };
        Ok(Self {
            effective: whole(|half| half.effective),
            permitted: whole(|half| half.permitted),
            inheritable: whole(|half| half.inheritable),
        })
    }

    /// Sets them for the calling thread.
    ///
    /// # Errors
    /// EPERM for a capability that the thread is not permitted.
    pub fn apply(&self) -> Result<(), Errno> {
        let header = CapabilityHeader { version: VERSION, pid: 0 };
        let half = |shift: u32| {
            let part = |set: CapabilitySet| (set.0 >> shift & u64::from(u32::MAX)) as u32;
            CapabilityHalf {
                effective: part(self.effective),
                permitted: part(self.permitted),
                inheritable: part(self.inheritable),
            }
        };
        let halves = [half(0), half(32)];
        // SAFETY: as above, and the kernel only reads.
        Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) })?;
        Ok(())
    }
}

/// Removes all capabilities except `kept` from the bounding set of the calling thread: no program that it starts gets them.
///
/// # Errors
/// EPERM without CAP_SETPCAP.
pub fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for number in (0..=LAST).filter(|&number| !kept.contains(CapabilitySet::from_numbers(&[number]))) {
        // SAFETY: the call reads two numbers.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        match Errno::result(result) {
            // This kernel has no capability with this number, and none with a higher number.
            Err(Errno::EINVAL) => return Ok(()),
            done => done?,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of proc_pid_status(5) for the calling thread.
    fn read_status(line: &str) -> CapabilitySet {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let value =
            status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap().trim();
        CapabilitySet(u64::from_str_radix(value, 16).unwrap())
    }

    #[test]
    fn capabilities_are_dropped_by_this_thread_only() {
        let before = CapabilitySets::of_thread().unwrap();
        assert_eq!(before.effective, read_status("CapEff"));
        assert_eq!(before.permitted, read_status("CapPrm"));
        // CAP_CHOWN and CAP_SETPCAP.
        let kept = before.permitted.and(CapabilitySet::from_numbers(&[0, 8]));
        std::thread::spawn(move || {
            let can_bound = before.effective.contains(CapabilitySet::from_numbers(&[8]));
            assert_eq!(bound(kept), if can_bound { Ok(()) } else { Err(Errno::EPERM) });
            if can_bound {
                assert_eq!(read_status("CapBnd"), kept);
            }
            let sets =
                CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::default() };
            sets.apply().unwrap();
            assert_eq!(CapabilitySets::of_thread(), Ok(sets));
            assert_eq!((read_status("CapEff"), read_status("CapPrm")), (kept, kept));
            if before.permitted != kept {
                assert_eq!(before.apply(), Err(Errno::EPERM), "there is no way back");
            } else {
                println!("SKIPPED: this process has no capability to lose");
            }
        })
        .join()
        .unwrap();
        assert_eq!(CapabilitySets::of_thread(), Ok(before));
    }

    #[test]
    fn a_set_has_one_bit_per_capability() {
        assert_eq!(CapabilitySet::from_numbers(&[0, 40]).0, 1 | 1 << 40);
        assert!(CapabilitySet(7).contains(CapabilitySet(5)) && !CapabilitySet(5).contains(CapabilitySet(7)));
    }
}
