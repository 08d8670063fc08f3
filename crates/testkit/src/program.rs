//! Runs the built program.

use std::env::current_exe;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The path of the program. Cargo puts the tests into a folder beside it.
pub fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = current_exe().unwrap();
        let program = test.parent().and_then(Path::parent).unwrap().join("namegate");
        assert!(
            program.exists(),
            "{}: is not built; run the tests of the package namegate",
            program.display()
        );
        program
    });
    &PROGRAM
}

/// The program, with nothing of the caller's environment that would change its output.
pub fn namegate() -> Command {
    let mut command = Command::new(program());
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// What the program says to these arguments.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    namegate().args(args).output().expect("the program starts")
}

/// The same, with bytes on standard input.
pub fn run_with<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, stdin: &[u8]) -> Output {
    let mut command = namegate();
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("standard input is a pipe");
    std::thread::scope(|scope| {
        // A program that ends before it has read everything is no failure of the writer.
        scope.spawn(move || drop(pipe.write_all(stdin)));
        child.wait_with_output().expect("the program ends")
    })
}

/// A copy of `program`, which can be run at once. It is made by a process of its own: programs that other tests start meanwhile
/// must not inherit a descriptor that has the copy open for writing (ETXTBSY).
pub fn copy_program(program: &Path, copy: &Path) {
    assert!(Command::new("cp").arg(program).arg(copy).status().expect("cp starts").success());
}

/// The exit status.
pub fn status(output: &Output) -> i32 {
    output.status.code().expect("the program is not killed")
}

/// Standard output as text.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the output is UTF-8")
}

/// Standard error as text.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("errors are UTF-8")
}
