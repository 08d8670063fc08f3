//! open_tree(2), fsmount(2) and move_mount(2), which neither std nor nix wraps.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::NixPath;
use nix::errno::Errno;

/// Copies the mount of `path`, with `path` as its root, and with `recursive` also the mounts below. The copy is attached
/// nowhere, and disappears with its descriptor.
///
/// # Errors
/// ENOSYS before Linux 5.2; EPERM without permission to mount; otherwise as open_tree(2) says.
pub fn clone_tree<P: ?Sized + NixPath>(path: &P, recursive: bool) -> Result<OwnedFd, Errno> {
    // An automount point may be what is being mounted right now: do not trigger it.
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_NO_AUTOMOUNT as libc::c_uint;
    let flags = if recursive { flags | libc::AT_RECURSIVE as libc::c_uint } else { flags };
    let call = |path: *const libc::c_char| {
        // SAFETY: the path ends with a NUL and outlives the call, which only reads it.
        Errno::result(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path, flags) })
    };
    let fd = path.with_nix_path(|path| call(path.as_ptr()))??;
    // SAFETY: the call has just opened the descriptor, and descriptors fit an int.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Mounts a file system that needs no device, attached nowhere. Returns its root; the mount disappears with what is open in it.
///
/// # Errors
/// ENOSYS before Linux 5.2; EPERM without permission to mount; ENODEV if the kernel has no such file system.
pub fn mount_nowhere(file_system: &CStr) -> Result<OwnedFd, Errno> {
    const CLOSE_ON_EXEC: libc::c_uint = 1;
    /// `FSCONFIG_CMD_CREATE` of linux/mount.h.
    const CREATE: libc::c_uint = 6;
    let (no_key, no_value) = (std::ptr::null::<libc::c_char>(), std::ptr::null::<libc::c_void>());
    // SAFETY: the name ends with a NUL and outlives the call, which only reads it. The descriptor is new, and fits an int.
    let context = unsafe {
        let fd = libc::syscall(libc::SYS_fsopen, file_system.as_ptr(), CLOSE_ON_EXEC);
        OwnedFd::from_raw_fd(Errno::result(fd)? as i32)
    };
    // SAFETY: the command has neither key nor value.
    let created =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, no_key, no_value, 0) };
    Errno::result(created)?;
    // SAFETY: the call touches no memory; its descriptor is new, and fits an int.
    Ok(unsafe {
        let fd = libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0);
        OwnedFd::from_raw_fd(Errno::result(fd)? as i32)
    })
}

/// Sets noatime on the mounts of `tree`: reading through them does not update access times. See mount_setattr(2).
///
/// # Errors
/// ENOSYS before Linux 5.12; EPERM without permission to mount.
pub fn keep_access_times(tree: impl AsFd) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOATIME,
        attr_clr: libc::MOUNT_ATTR__ATIME,
        propagation: 0,
        userns_fd: 0,
    };
    let (tree, flags) = (tree.as_fd().as_raw_fd(), libc::AT_EMPTY_PATH | libc::AT_RECURSIVE);
    // SAFETY: path and attributes outlive the call, which only reads them, and the size is that of the attributes.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree,
            c"".as_ptr(),
            flags,
            &attributes,
            size_of_val(&attributes),
        )
    })?;
    Ok(())
}

/// Attaches a detached tree of mounts at `place`.
///
/// # Errors
/// As move_mount(2) says.
pub fn attach_tree<P: ?Sized + NixPath>(tree: impl AsFd, place: &P) -> Result<(), Errno> {
    let tree = tree.as_fd().as_raw_fd();
    let (empty, flags) = (c"", libc::MOVE_MOUNT_F_EMPTY_PATH);
    let call = |place: *const libc::c_char| {
        // SAFETY: both paths end with a NUL and outlive the call, which only reads them.
        Errno::result(unsafe {
            libc::syscall(libc::SYS_move_mount, tree, empty.as_ptr(), libc::AT_FDCWD, place, flags)
        })
    };
    place.with_nix_path(|place| call(place.as_ptr()))??;
    Ok(())
}
