//! What `namegate guard` needs: a kernel that runs BPF programs on its security hooks.
//!
//! Sources: kernel-parameters.txt (`lsm=`), prog_lsm.rst and kernel_lockdown(7); the kernels of docs/GUARD.md.

use namegate_core::name::display::display;

use super::{Diagnosis, Machine};

const ID: &str = "guard";

/// One result: the guard can run as far as files tell, or the first obstacle.
pub(super) fn check(machine: &Machine) -> Diagnosis {
    let Ok(release) = machine.text("proc/sys/kernel/osrelease") else {
        return Diagnosis::unknown(ID, "the kernel version is unknown");
    };
    let Some(version) = super::fuse::version(&release) else {
        return Diagnosis::unknown(ID, "the kernel version is unknown");
    };
    let oldest = if cfg!(target_arch = "aarch64") { (6, 4) } else { (6, 1) };
    if version < oldest {
        return Diagnosis::warn(
            ID,
            format!(
                "no guard: Linux {} is older than {}.{}",
                display(release.as_bytes()),
                oldest.0,
                oldest.1
            ),
            "a newer kernel can refuse names by itself; `namegate mount` and `namegate watch` work on this one",
        );
    }
    let Ok(modules) = machine.text("sys/kernel/security/lsm") else {
        return Diagnosis::unknown(
            ID,
            "no list of security modules: mount securityfs (mount -t securityfs securityfs /sys/kernel/security)",
        );
    };
    if !modules.split(',').any(|module| module == "bpf") {
        return Diagnosis::warn(
            ID,
            format!(
                "no guard: the security modules of this kernel are {}, without bpf",
                display(modules.as_bytes())
            ),
            format!(
                "start the kernel with the parameter lsm={},bpf (docs/GUARD.md says how on each distribution)",
                display(modules.as_bytes())
            ),
        );
    }
    if !machine.path("sys/kernel/btf/vmlinux").exists() {
        return Diagnosis::warn(
            ID,
            "no guard: the kernel does not describe its types (/sys/kernel/btf/vmlinux)",
            "a kernel with CONFIG_DEBUG_INFO_BTF=y can run it",
        );
    }
    match machine.text("sys/kernel/security/lockdown") {
        Ok(mode) if mode.contains("[confidentiality]") => Diagnosis::warn(
            ID,
            "no guard: the kernel is locked down for confidentiality, and lets no program read its memory",
            "lockdown=integrity allows it",
        ),
        _ => Diagnosis::ok(
            ID,
            "as far as its settings tell, the kernel can check names by itself (namegate guard)",
        ),
    }
}
