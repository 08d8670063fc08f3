//! When freed memory goes back to the system.

/// Larger buffers go back when they are freed.
#[cfg(target_env = "gnu")]
const MOST_KEPT: libc::c_int = 1 << 20;

/// Makes the allocator return large buffers as soon as they are freed. The GNU C library does that only until the first one is freed:
/// then it expects more of that size, and keeps up to 64 MiB (mallopt(3), M_MMAP_THRESHOLD). Other libraries are left as they are.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers, and locks the allocator itself.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MOST_KEPT);
        // Setting one number fixes the other, too low for programs that allocate much: twice the first is the ratio by itself.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * MOST_KEPT);
    }
}
