//! Loads the BPF program into the kernel.

use std::io;
use std::path::{Path, PathBuf};

use aya::{Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};

use super::table;
use crate::sys::bpf::{BpfMap, MapKind};

/// Maximum number of guards.
pub const SLOTS: u32 = 32;

/// The security hooks for new names. The object has a program of the same name for each.
pub const HOOKS: [&str; 6] =
    ["inode_create", "inode_mkdir", "inode_mknod", "inode_symlink", "inode_link", "inode_rename"];

/// The compiled program, as `scripts/build-guard` builds it.
pub static OBJECT: &[u8] = include_bytes_aligned!("guard.bpf.o");

/// Why the program could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// A map could not be created or pinned.
    Map(PathBuf, io::Error),
    /// The object could not be read, or the kernel refused one of its maps.
    Object(EbpfError),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Map(path, e) => write!(f, "cannot pin a map of the guard at '{}': {e}", path.display()),
            Self::Object(e) => write!(f, "cannot load the guard's program: {e}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// The program with its maps, which are pinned in `pins`, a directory of a BPF file system, and the tables of its guards.
#[derive(Debug)]
pub struct Program {
    /// The object, whose programs are loaded one by one.
    pub object: Ebpf,
    tables: BpfMap,
}

impl Program {
    /// Creates and pins the maps of the program.
    ///
    /// # Errors
    /// [`LoadError`], also if a map is already pinned there.
    pub fn new(pins: &Path) -> Result<Self, LoadError> {
        let path = pins.join("guards");
        let tables = empty_table()
            .and_then(|table| BpfMap::create(MapKind::ArrayOfMaps, 4, SLOTS, Some(&table)))
            .map_err(io::Error::from)
            .and_then(|tables| tables.pin(&path).map(|()| tables))
            .map_err(|e| LoadError::Map(path, e))?;
        // aya reuses maps that are already pinned, and so this one, whose type it does not know.
        let object = EbpfLoader::new()
            .allow_unsupported_maps()
            .map_pin_path(pins)
            .load(OBJECT)
            .map_err(LoadError::Object)?;
        Ok(Self { object, tables })
    }

    /// Replaces the table in a slot. A guard always has either the old table or the new one.
    ///
    /// # Errors
    /// As bpf(2) says.
    pub fn set(&self, slot: u32, table: &[u8]) -> io::Result<()> {
        let map = empty_table()?;
        map.set(0, table)?;
        self.tables.set_map(slot, &map)?;
        Ok(())
    }
}

fn empty_table() -> Result<BpfMap, nix::errno::Errno> {
    BpfMap::create(MapKind::Array, table::SIZE, 1, None)
}
