//! `namegate why`: a mount tells each user why it refused that user's names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::geteuid;

use namegate_testkit::mounted::{TestMount, can_mount, open_to_all};
use namegate_testkit::wait_until;

const NOBODY: u32 = 65534;

/// What `namegate why` tells the user.
fn why(user: u32, path: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("why").arg(path);
    if user != 0 {
        command.uid(user).gid(user);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), [stdout, stderr].map(|text| String::from_utf8(text).unwrap()).concat())
}

#[test]
fn each_user_is_told_of_own_refusals_and_of_the_policy_of_the_mount() {
    if !can_mount() {
        return;
    }
    if !geteuid().is_root() {
        println!("SKIPPED: needs root, to ask as another user");
        return;
    }
    let mounted = TestMount::new(&["--profile", "windows", "--allow-other"]).expect("it can mount");
    open_to_all(mounted.mnt().parent().unwrap());
    let mnt = &mounted.mnt();
    let errno = |result: io::Result<File>| result.unwrap_err().raw_os_error();
    let expected = Some(Errno::EINVAL as i32);
    assert_eq!(errno(File::create(mnt.join("aux.txt"))), expected);
    fs::write(mnt.join("aux_.txt"), "").unwrap();
    let path = mnt.join("aux.txt");
    wait_until("the record", || why(0, &path).1.contains("was refused"));
    let (status, said) = why(0, &path);
    assert!(said.starts_with("`aux.txt` was refused ") && said.contains(" ago (create): "), "{said}");
    assert!(said.contains("(reserved-name). Use `aux__2.txt`.\n") && said.lines().count() == 1, "{said}");
    assert_eq!(status, Some(1));
    // Below a directory that was refused, it is that directory.
    assert!(fs::create_dir(mnt.join("con")).is_err());
    wait_until("the record", || why(0, &mnt.join("con/x")).1.starts_with("`con` was refused"));

    let (status, said) = why(NOBODY, &path);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with("`aux.txt` breaks a rule: ") && said.contains("(reserved-name)"), "{said}");
    fs::set_permissions(mnt, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let touched = Command::new("touch").arg(mnt.join("nul")).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert!(!touched.status.success());
    wait_until("the record", || why(NOBODY, &mnt.join("nul")).1.starts_with("`nul` was refused"));
    let (_, told) = why(0, &mnt.join("nul"));
    assert!(told.starts_with("`nul` was refused ") && told.contains("asked by uid 65534, pid "), "{told}");
    assert!(told.contains(" touch): "), "{told}");
    // A client that tries again, under the temporary name of rsync.
    for _ in 0..5 {
        assert!(File::create(mnt.join(".b?.txt.Xy12Zz")).is_err());
    }
    let meant = mnt.join("b?.txt");
    wait_until("the records", || why(0, &meant).1.contains("5 times, the last one"));
    let (_, told) = why(0, &meant);
    assert!(told.starts_with("`b?.txt` under the temporary name `.b?.txt.Xy12Zz` was refused"), "{told}");
    assert_eq!(
        why(NOBODY, &mnt.join("good")),
        (Some(0), "`good` breaks no rule of the policy of the mount.\n".into())
    );
    // The attribute is none of a file.
    let listed = xattrs(mnt);
    assert!(!listed.contains("namegate"), "{listed}");
}

#[test]
fn a_policy_too_long_for_an_attribute_is_known() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("policy.toml");
    let names: Vec<String> = (0..10_000).map(|number| format!("\"name{number:05}\"")).collect();
    fs::write(&config, format!("profiles = [\"utf8\"]\nreserved-names = [{}]\n", names.join(","))).unwrap();
    let mounted = TestMount::new(&["--config", config.to_str().unwrap()]).expect("it can mount");
    let mnt = &mounted.mnt();
    let why = |name: &str| why(0, &mnt.join(name));
    let (status, said) = why("name09999");
    assert!(status == Some(1) && said.starts_with("`name09999` breaks a rule: "), "{said}");
    assert_eq!(why("aux"), (Some(0), "`aux` breaks no rule of the policy of the mount.\n".into()));
    assert!(File::create(mnt.join("name00001")).is_err());
    wait_until("the record", || why("name00001").1.starts_with("`name00001` was refused"));
}

/// The names of the attributes of a directory.
fn xattrs(dir: &Path) -> String {
    let dir = File::open(dir).unwrap();
    let mut names = vec![0; 1 << 16];
    let len = namegate_sys::xattr::list(&dir, &mut names).unwrap();
    String::from_utf8_lossy(&names[..len]).into_owned()
}

#[test]
fn outside_of_a_mount_the_profile_decides() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, profile: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_namegate"))
            .args(["why", "--profile", profile])
            .arg(dir.path().join(name))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, said) = run("a:b", "windows");
    assert!(
        status == Some(1) && said.contains("(reserved-character)") && said.ends_with(" Use `a_b`.\n"),
        "{said}"
    );
    assert_eq!(run("a:b", "utf8"), (Some(0), "`a:b` breaks no rule of the policy.\n".into()));
    let output = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .args([OsStr::new("why"), OsStr::new("/")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn refusals_are_followed_while_they_happen() {
    let Some(mounted) = TestMount::new(&["--profile", "windows"]) else { return };
    let mnt = mounted.mnt();
    assert!(File::create(mnt.join("before?")).is_err());
    wait_until("the record", || why(0, &mnt.join("before?")).1.contains("was refused"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    let mut follower = command.args(["why", "--follow"]).arg(&mnt).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let told = tempfile::NamedTempFile::new().unwrap();
    let script = "printf '%s\\n' \"$1\" >>\"$0\"";
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command
        .args(["why", "--follow"])
        .arg(&mnt)
        .args(["--exec", "sh", "-c", script])
        .arg(told.path())
        .arg("{}");
    let notifier = command.spawn().unwrap();
    // Nothing says when the first question was answered; what was refused before is not printed.
    let is_over = AtomicBool::new(false);
    let line = thread::scope(|scope| {
        scope.spawn(|| {
            let mut names = (0..).map(|number| mnt.join(format!("what?{number}")));
            while !is_over.load(Ordering::Relaxed) {
                assert!(fs::create_dir(names.next().unwrap()).is_err());
                thread::sleep(Duration::from_millis(50));
            }
        });
        let line = lines.next();
        wait_until("the program", || !fs::read(told.path()).unwrap().is_empty());
        is_over.store(true, Ordering::Relaxed);
        line.unwrap().unwrap()
    });
    assert!(
        line.starts_with("`what?") && line.contains("was refused") && line.contains("reserved-character"),
        "{line}"
    );
    let first = fs::read_to_string(told.path()).unwrap();
    assert!(first.starts_with("`what?") && first.contains("was refused"), "{first}");
    for mut process in [follower, notifier] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
