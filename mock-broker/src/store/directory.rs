//! The directory of a store: what is where, who holds it, and whether it was closed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;
use crate::store::platform;

/// A directory that this store holds; dropping it lets go of it.
#[derive(Debug)]
pub(super) struct StoreDirectory {
    root: PathBuf,
    /// Holds the lock as long as it is open.
    _lock: File,
    was_closed: bool,
}

impl StoreDirectory {
    /// Takes hold of a directory, which is created if it does not exist, and marks it as in use.
    ///
    /// # Errors
    ///
    /// When the directory cannot be created or written, or when somebody else holds it.
    pub(super) fn acquire(root: &Path) -> Result<StoreDirectory, StoreError> {
        fs::create_dir_all(root).map_err(StoreError::io("cannot create the store's directory", root))?;
        let lock = lock(&root.join("lock"))?;
        let abort = root.join("abort");
        let was_closed = !abort.exists();
        // As Apache's broker does: the file says that the store was not closed, and who had it open.
        fs::write(&abort, std::process::id().to_string())
            .map_err(StoreError::io("cannot mark the store as in use", &abort))?;
        Ok(StoreDirectory { root: root.to_owned(), _lock: lock, was_closed })
    }

    /// Returns whether whoever had the store open before closed it.
    pub(super) fn was_closed(&self) -> bool {
        self.was_closed
    }

    pub(super) fn commit_log(&self) -> PathBuf {
        self.root.join("commitlog")
    }

    pub(super) fn consume_queues(&self) -> PathBuf {
        self.root.join("consumequeue")
    }

    pub(super) fn queue_extensions(&self) -> PathBuf {
        self.root.join("consumequeue_ext")
    }

    pub(super) fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// Where things are put that are about to be removed.
    pub(super) fn removed(&self) -> PathBuf {
        self.root.join("removed")
    }

    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    pub(super) fn timer_wheel(&self) -> PathBuf {
        self.root.join("timerwheel")
    }

    pub(super) fn timer_log(&self) -> PathBuf {
        self.root.join("timerlog")
    }

    pub(super) fn config(&self, name: &str) -> PathBuf {
        self.root.join("config").join(name)
    }

    /// Marks the store as closed; everything must be on disk.
    ///
    /// # Errors
    ///
    /// When the mark cannot be removed.
    pub(super) fn mark_closed(&self) -> Result<(), StoreError> {
        let abort = self.root.join("abort");
        fs::remove_file(&abort).map_err(StoreError::io("cannot mark the store as closed", &abort))
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = open.map_err(StoreError::io("cannot open the store's lock file", path))?;
    match platform::lock_exclusively(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim().parse::<u32>() {
                Ok(process) => format!("process {process}"),
                Err(_) => "another broker".to_owned(),
            };
            return Err(StoreError::at(format!("{holder} has the store open; give each broker its own"), path));
        }
        Err(error) => return Err(StoreError::io("cannot lock the store", path)(error)),
    }
    let name_holder = || {
        file.set_len(0)?;
        (&file).write_all(std::process::id().to_string().as_bytes())
    };
    name_holder().map_err(StoreError::io("cannot write the store's lock file", path))?;
    Ok(file)
}
