//! Processes that go on with a program that was replaced since, as after an upgrade of the package.

use std::fs;

use namegate_core::name::display::display;
use namegate_sys::process::replaced_program;

use super::{Diagnosis, Machine};

pub(super) fn check(machine: &Machine) -> Option<Diagnosis> {
    let processes = fs::read_dir(machine.path("proc")).ok()?;
    let mut found: Vec<(u32, String)> = processes
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| runs_replaced(machine, *pid))
        .map(|pid| (pid, command_of(machine, pid)))
        .collect();
    found.sort_unstable();
    let commands: Vec<String> =
        found.iter().map(|(pid, command)| format!("process {pid} ({command})")).collect();
    (!found.is_empty()).then(|| {
        Diagnosis::warn(
            "programs",
            format!("a program that was replaced since still runs: {}", commands.join(", ")),
            "`namegate upgrade NAME` goes on with the new one where a mount has `survive`; otherwise restart the service when \
             its clients can spare their open files",
        )
    })
}

fn runs_replaced(machine: &Machine, pid: u32) -> bool {
    let exe = fs::read_link(machine.path(&format!("proc/{pid}/exe")));
    exe.is_ok_and(|exe| replaced_program(&exe).is_some_and(|path| path.ends_with(b"/namegate")))
}

/// The command of namegate that the process runs, such as `mount`.
fn command_of(machine: &Machine, pid: u32) -> String {
    let words = machine.read(&format!("proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = words.split(|&byte| byte == 0);
    let program = words.next().unwrap_or_default();
    // The helper of mount(8) has its own name instead.
    let is_helper = !program.ends_with(b"namegate") || program.ends_with(b"mount.namegate");
    let command = if is_helper { b"mount" } else { words.next().unwrap_or_default() };
    display(command).to_string()
}
