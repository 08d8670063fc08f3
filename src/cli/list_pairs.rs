//! `namegate list-pairs`: distributes the names of lists among files that can be checked one by one.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::num::{NonZeroU16, NonZeroUsize};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_scan::report::layout::counted;
use namegate_scan::source::list::route::{PairFiles, RoutedCounts};
use namegate_sys::{allocation, open_files};

use super::list_reading_args::ListReadingArgs;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate list-pairs --split 4 --to pairs --list-format csv:2 --decode percent inventory.csv
  ls pairs | xargs -P 4 -I{} namegate scan --list pairs/{} -0 --list-as pairs -q -o {}.jsonl

Each directory is in one file as a whole, so the files can be checked by several processes or machines. Each pair is the directory, \
NUL, the name, NUL, `d` (a directory), `f` (a file) or nothing (unknown), NUL. The file of a directory depends on its bytes and on N alone: if several runs distribute the parts of a list, \
concatenate their files of the same number.

Exit status: 0 everything was distributed, 2 something could not be read or written.";

/// Distribute the names of lists among files, by directory, to check them in several processes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ListPairsArgs {
    /// Lists of paths or keys; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    lists: Vec<PathBuf>,
    /// Number of files
    #[arg(long, value_name = "N")]
    split: NonZeroU16,
    /// Create this directory, with the files 00000.pairs, 00001.pairs and so on
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    items: ListReadingArgs,
}

/// Runs the command.
///
/// # Errors
/// The directory exists, or a file in it cannot be written.
pub fn run(args: &ListPairsArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    open_files::raise_limit();
    allocation::return_large_buffers();
    let failed = |error: io::Error| CliError::new(format!("{}: {error}", shown(&args.to)));
    if args.to.symlink_metadata().is_ok() {
        let exists = io::Error::new(io::ErrorKind::AlreadyExists, "it exists; name a new directory");
        return Err(failed(exists));
    }
    // The directory appears when all files in it are complete.
    let above = args.to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new()
        .prefix(".namegate-pairs-")
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(above)
        .map_err(failed)?;
    let counts = distribute(args, unfinished.path()).map_err(|error| CliError::new(error.to_string()))?;
    fs::rename(unfinished.path(), &args.to).map_err(failed)?;
    // It has another name now.
    let _ = unfinished.keep();
    let (items, pairs) = (counted(counts.items, "item", "items"), counted(counts.pairs, "pair", "pairs"));
    let files = counted(u64::from(args.split.get()), "file", "files");
    writeln!(out, "{items}, {pairs} in {files}")?;
    Ok(if counts.unreadable == 0 { ExitStatus::Clean } else { ExitStatus::Failed })
}

fn distribute(args: &ListPairsArgs, dir: &Path) -> io::Result<RoutedCounts> {
    let mut files = PairFiles::create(dir, args.split)?;
    for list in &args.lists {
        let list = args.items.list(list.clone(), NonZeroUsize::MIN);
        files.add(&list, &mut |fault| {
            // If this fails, there is only the exit status left.
            let _ = writeln!(anstream::stderr(), "namegate: {fault}");
        })?;
    }
    files.finish()
}
