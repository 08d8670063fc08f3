//! Maps of maps, pins of any object and test runs of programs, which aya lacks. See bpf(2).

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

use super::process::fd_info;

// include/uapi/linux/bpf.h: enum bpf_cmd.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const OBJ_PIN: libc::c_int = 6;
const OBJ_GET: libc::c_int = 7;
const MAP_GET_FD_BY_ID: libc::c_int = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// An array of values.
    Array = 2,
    ArrayOfMaps = 12,
}

/// A BPF map with keys of 32 bits.
#[derive(Debug)]
pub struct BpfMap {
    fd: OwnedFd,
    value_size: usize,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Pin {
    path: u64,
    fd: u32,
    flags: u32,
}

/// # Safety
/// The attributes are those of the command, and the memory that they point to has the length that the kernel expects.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> Result<libc::c_long, Errno> {
    // SAFETY: the size is that of the attributes; the caller guarantees the memory that they point to.
    Errno::result(unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

impl BpfMap {
    /// Opens a map that is pinned.
    ///
    /// # Errors
    /// As [`open_pinned`]; EINVAL for what is no map with keys of 32 bits.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_fd(open_pinned(path)?)
    }

    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let info = |field| fd_info(&fd, field)?.ok_or(io::Error::from(Errno::EINVAL));
        if info("key_size")? != 4 {
            return Err(Errno::EINVAL.into());
        }
        let value_size = usize::try_from(info("value_size")?).map_err(|_| Errno::EINVAL)?;
        Ok(Self { fd, value_size })
    }

    /// The size of a value in bytes.
    pub fn value_size(&self) -> usize {
        self.value_size
    }

    /// Reads a value. In a map of maps that is the identifier of a map.
    ///
    /// # Errors
    /// As bpf(2) says: ENOENT if there is none.
    pub fn get(&self, key: u32) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; self.value_size];
        let value = bytes.as_mut_ptr() as u64;
        let mut element =
            Element { map: number(self.as_fd()), key: (&raw const key) as u64, value, ..Element::default() };
        // SAFETY: the key has the size that every map here is made with; the kernel writes one value of this map's size.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut element) }?;
        Ok(bytes)
    }

    /// Opens a map in this map of maps.
    ///
    /// # Errors
    /// As [`BpfMap::get`]; EPERM without CAP_SYS_ADMIN.
    pub fn get_map(&self, key: u32) -> io::Result<Self> {
        let id: [u8; 4] = self.get(key)?.try_into().map_err(|_| Errno::EINVAL)?;
        // The command takes the identifier first, and zeros for the rest.
        let mut attributes = Element { map: u32::from_ne_bytes(id), ..Element::default() };
        // SAFETY: the attributes of MAP_GET_FD_BY_ID point to nothing.
        let fd = unsafe { bpf(MAP_GET_FD_BY_ID, &mut attributes) }?;
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        Self::from_fd(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }

    /// Creates a map of `entries` values of `value_size` bytes; for maps of maps, `inner` is a map of the same shape as those in it.
    ///
    /// # Errors
    /// As bpf(2) says: EPERM without the rights.
    pub fn create(kind: MapKind, value_size: u32, entries: u32, inner: Option<&Self>) -> Result<Self, Errno> {
        let inner = inner.map_or(0, |map| number(map.as_fd()));
        let mut create =
            Create { kind: kind as u32, key_size: 4, value_size, max_entries: entries, flags: 0, inner };
        // SAFETY: the attributes of MAP_CREATE point to nothing.
        let fd = unsafe { bpf(MAP_CREATE, &mut create) }?;
        // SAFETY: the kernel has just created this descriptor, and nothing else uses it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        Ok(Self { fd, value_size: value_size as usize })
    }

    /// Replaces a value.
    ///
    /// # Errors
    /// As bpf(2) says: E2BIG for a key beyond the map.
    ///
    /// # Panics
    /// If the value has another size than those of the map.
    pub fn set(&self, key: u32, value: &[u8]) -> Result<(), Errno> {
        assert_eq!(value.len(), self.value_size, "values of a map have one size");
        let value = value.as_ptr() as u64;
        let mut element =
            Element { map: number(self.as_fd()), key: (&raw const key) as u64, value, ..Element::default() };
        // SAFETY: the key has the size of all keys here, the value that of this map; both outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut element) }.map(drop)
    }

    /// Puts `map` into this map of maps.
    ///
    /// # Errors
    /// As bpf(2) says: EINVAL for a map that is not like the others.
    pub fn set_map(&self, key: u32, map: &Self) -> Result<(), Errno> {
        self.set(key, &number(map.as_fd()).to_ne_bytes())
    }

    /// Removes a map from this map of maps.
    ///
    /// # Errors
    /// As bpf(2) says: ENOENT if there is none.
    pub fn remove(&self, key: u32) -> Result<(), Errno> {
        let mut element =
            Element { map: number(self.as_fd()), key: (&raw const key) as u64, ..Element::default() };
        // SAFETY: the key has the size of all keys here, and outlives the call.
        unsafe { bpf(MAP_DELETE_ELEM, &mut element) }.map(drop)
    }
}

/// Gives a map, a program or a link a name in a BPF file system, so that it outlives this process.
///
/// # Errors
/// As bpf(2) says: EEXIST, and EPERM outside of a BPF file system.
pub fn pin(object: impl AsFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut pin = Pin { path: path.as_ptr() as u64, fd: number(object.as_fd()), flags: 0 };
    // SAFETY: the path ends with NUL and outlives the call.
    unsafe { bpf(OBJ_PIN, &mut pin) }?;
    Ok(())
}

/// Opens a map, a program or a link that has a name in a BPF file system.
///
/// # Errors
/// As bpf(2) says: ENOENT, and EPERM or EACCES for files that are no such object.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut pin = Pin { path: path.as_ptr() as u64, ..Pin::default() };
    // SAFETY: the path ends with NUL and outlives the call.
    let fd = unsafe { bpf(OBJ_GET, &mut pin) }?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

impl AsFd for BpfMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
