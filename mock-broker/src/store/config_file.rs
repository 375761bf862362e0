//! The settings files of a store (`config/topics.json` and so on): replaced whole, with the version before kept as
//! `.bak`. Their contents belong to those who write them.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;
use crate::store::flush::Persister;

/// One settings file; of a store in memory it holds nothing.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    file: Option<(PathBuf, Persister)>,
}

impl ConfigFile {
    pub(super) fn in_memory() -> Self {
        ConfigFile { file: None }
    }

    pub(super) fn on_disk(path: PathBuf, persister: Persister) -> Self {
        ConfigFile { file: Some((path, persister)) }
    }

    /// Reads the file with `parse`, or the version before if the file is missing, empty or cannot be parsed; none if
    /// neither exists.
    ///
    /// # Errors
    ///
    /// When files exist and none of them can be parsed.
    pub fn load<T, E: fmt::Display>(&self, parse: impl Fn(&str) -> Result<T, E>) -> Result<Option<T>, StoreError> {
        let Some((path, _)) = &self.file else { return Ok(None) };
        let mut failure = None;
        for path in [path.clone(), backup_of(path)] {
            match fs::read_to_string(&path) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => match parse(&text) {
                    Ok(parsed) => return Ok(Some(parsed)),
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "a settings file cannot be read");
                        failure.get_or_insert(StoreError::at(format!("cannot read settings: {error}"), &path));
                    }
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    failure.get_or_insert(StoreError::io("cannot read settings", &path)(error));
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Replaces the file by `text` before it returns, so that the text survives the end of the process; the second thread
    /// sees to it that it survives a power failure too. A file that is written so never is [persisted](Self::persist).
    ///
    /// # Errors
    ///
    /// Whatever the file system says; the file stays as it was then.
    pub fn write(&self, text: &str) -> Result<(), StoreError> {
        let Some((path, persister)) = &self.file else { return Ok(()) };
        replace(path, text, &|_| Ok(()))?;
        persister.sync(path);
        Ok(())
    }

    /// Has the file replaced by `text` on the store's second thread; of several texts that wait only the last is written.
    /// What goes wrong there is logged.
    ///
    /// # Errors
    ///
    /// When the store is closed.
    pub fn persist(&self, text: String) -> Result<(), StoreError> {
        match &self.file {
            Some((path, persister)) => persister.persist(path, text),
            None => Ok(()),
        }
    }
}

/// Replaces a file so that at any moment it or its backup is whole; on disk too if `sync` syncs.
pub(super) fn replace(path: &Path, text: &str, sync: &dyn Fn(&File) -> io::Result<()>) -> Result<(), StoreError> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).map_err(StoreError::io("cannot create a directory of the store", directory))?;
    let new = with_suffix(path, ".tmp");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        sync(&file)
    };
    write().map_err(StoreError::io("cannot write settings", &new))?;
    match fs::rename(path, backup_of(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::io("cannot keep the settings before", path)(error));
        }
        _ => {}
    }
    fs::rename(&new, path).map_err(StoreError::io("cannot replace settings", path))?;
    File::open(directory)
        .and_then(|directory| sync(&directory))
        .map_err(StoreError::io("cannot write a directory", directory))
}

fn backup_of(path: &Path) -> PathBuf {
    with_suffix(path, ".bak")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
