//! Loads the BPF program into the kernel.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use aya::programs::links::FdLink;
use aya::programs::{Lsm, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use namegate_core::name::display::shown;
use namegate_sys::bpf::{BpfMap, MapKind, pin};
use nix::errno::Errno;

use super::table::{self, SLOTS};

/// The security hook for the end of a file system.
pub const END_HOOK: &str = "sb_delete";

/// The security hooks for new names, and the one for the end of a file system. The object has a program of the same name for each.
pub const HOOKS: [&str; 7] =
    ["inode_create", "inode_mkdir", "inode_mknod", "inode_symlink", "inode_link", "inode_rename", END_HOOK];

/// The pinned map for readers of events: for each slot, how many of its guard's lost events are recorded.
pub const RECORDED: &str = "recorded";

/// The compiled program, as `scripts/build-guard` builds it.
pub static OBJECT: &[u8] = include_bytes_aligned!("guard.bpf.o");

/// Why the program could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// A map could not be created or pinned.
    Map(PathBuf, io::Error),
    /// The object could not be read, or the kernel refused one of its maps.
    Object(EbpfError),
    /// The kernel does not describe its types.
    Types(BtfError),
    /// The kernel takes no program for a hook from anybody.
    Forbidden(&'static str, io::Error),
    /// The kernel refused the program of a hook, or to attach or pin it.
    Hook(&'static str, ProgramError),
}

impl LoadError {
    fn from_hook(hook: &'static str, error: ProgramError) -> Self {
        match error {
            // Programs that the verifier refuses have a log.
            ProgramError::LoadError { io_error, verifier_log }
                if io_error.raw_os_error() == Some(Errno::EPERM as i32)
                    && verifier_log.to_string().trim().is_empty() =>
            {
                Self::Forbidden(hook, io_error)
            }
            error => Self::Hook(hook, error),
        }
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Map(path, e) => write!(f, "cannot pin a map of the guard at {}: {e}", shown(path)),
            Self::Object(e) => write!(f, "cannot load the guard's program: {}", with_sources(e)),
            Self::Types(e) => write!(f, "the kernel does not describe its types (BTF): {}", with_sources(e)),
            Self::Forbidden(hook, e) => {
                write!(f, "this kernel or its vendor forbids BPF LSM programs (hook {hook}: {e})")
            }
            Self::Hook(hook, e) => {
                write!(f, "the kernel does not run a program on its hook {hook}: {}", with_sources(e))
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// The message of an error and of what caused it. The log of the verifier, which can be long, goes to the log.
fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(ProgramError::LoadError { io_error, verifier_log }) = error.downcast_ref() {
        log::info!("{verifier_log}");
        return io_error.to_string();
    }
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| match cause.to_string() {
        cause if text.contains(&cause) => text,
        cause => format!("{text}: {cause}"),
    })
}

/// The program with its maps, which are pinned in a directory of a BPF file system.
#[derive(Debug)]
pub struct Program {
    /// The object, whose programs are loaded one by one.
    pub object: Ebpf,
}

impl Program {
    /// Creates and pins the maps of the program.
    ///
    /// # Errors
    /// [`LoadError`], also if a map is already pinned there.
    pub fn new(pins: &Path) -> Result<Self, LoadError> {
        let pinned = |name: &str, map: Result<BpfMap, Errno>| {
            let path = pins.join(name);
            let pinned = map.map_err(io::Error::from).and_then(|map| pin(&map, &path));
            pinned.map_err(|e| LoadError::Map(path, e))
        };
        let tables =
            empty_table().and_then(|table| BpfMap::create(MapKind::ArrayOfMaps, 4, SLOTS, Some(&table)));
        pinned("guards", tables)?;
        pinned(RECORDED, BpfMap::create(MapKind::Array, 8, SLOTS, None))?;
        // aya reuses maps that are already pinned, and so this one, whose type it does not know.
        let object = EbpfLoader::new()
            .allow_unsupported_maps()
            .map_pin_path(pins)
            .load(OBJECT)
            .map_err(LoadError::Object)?;
        Ok(Self { object })
    }

    /// Has the kernel verify the programs of all hooks.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(&mut self) -> Result<(), LoadError> {
        let types = Btf::from_sys_fs().map_err(LoadError::Types)?;
        HOOKS.into_iter().try_for_each(|hook| {
            let program = hooked(&mut self.object, hook).map_err(|e| LoadError::Hook(hook, e))?;
            program.load(hook, &types).map_err(|e| LoadError::from_hook(hook, e))
        })
    }

    /// Attaches the program of a hook, as long as the result exists.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn attach(&mut self, hook: &'static str) -> Result<FdLink, LoadError> {
        let attached = hooked(&mut self.object, hook).and_then(|program| {
            let link = program.attach()?;
            program.take_link(link)
        });
        attached.map(FdLink::from).map_err(|e| LoadError::Hook(hook, e))
    }

    /// Attaches the programs to their hooks, and pins programs and links beside the maps: they stay in force until nothing pins
    /// them.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn attach_and_pin(&mut self, pins: &Path) -> Result<(), LoadError> {
        for hook in HOOKS {
            let link = self.attach(hook)?;
            let path = pins.join(link_pin(hook));
            link.pin(&path).map_err(|e| LoadError::Map(path, io::Error::other(e)))?;
            let path = pins.join(hook);
            let pinned = hooked(&mut self.object, hook)
                .and_then(|program| Ok(program.fd()?.as_fd().try_clone_to_owned()?));
            let program = pinned.map_err(|e| LoadError::Hook(hook, e))?;
            pin(&program, &path).map_err(|e| LoadError::Map(path, e))?;
        }
        Ok(())
    }
}

fn hooked<'o>(object: &'o mut Ebpf, hook: &str) -> Result<&'o mut Lsm, ProgramError> {
    object.program_mut(hook).expect("the object has a program for each hook").try_into()
}

/// The name of a hook's link in the directory of the pins; the program has the name of the hook.
pub fn link_pin(hook: &str) -> String {
    format!("{hook}-link")
}

/// Replaces the table in a slot of `tables`. A guard always has either the old table or the new one.
///
/// # Errors
/// As bpf(2) says.
pub fn set_table(tables: &BpfMap, slot: u32, table: &[u8]) -> io::Result<()> {
    let map = empty_table()?;
    map.set(0, table)?;
    tables.set_map(slot, &map)?;
    Ok(())
}

fn empty_table() -> Result<BpfMap, Errno> {
    BpfMap::create(MapKind::Array, table::SIZE, 1, None)
}
