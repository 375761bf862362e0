//! What the store asks of the operating system beyond the standard library.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::MmapRaw;

/// Reserves disk space for `length` bytes of `file` from `offset` on, so that writing them later cannot run out of it.
///
/// The range must hold no data yet: where the file system cannot reserve, zeros are written instead.
///
/// # Errors
///
/// Whatever the file system says, [`io::ErrorKind::StorageFull`] when it has no room.
pub(super) fn reserve(file: &File, offset: u64, length: u64) -> io::Result<()> {
    #[cfg(test)]
    limit::take(length)?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return write_zeros(file, offset, length);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::io::Errno;
        loop {
            match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, length) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write_zeros(file, offset, length),
                other => return Ok(other?),
            }
        }
    }
}

/// Takes disk space for the holes in a range of `file`; data there stays. Where the file system cannot do that,
/// nothing is done.
///
/// # Errors
///
/// Whatever the file system says, [`io::ErrorKind::StorageFull`] when it has no room.
pub(super) fn fill_holes(file: &File, offset: u64, length: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::io::Errno;
        loop {
            match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, length) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                other => return Ok(other?),
            }
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = (file, offset, length);
        Ok(())
    }
}

fn write_zeros(mut file: &File, offset: u64, mut length: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    file.seek(SeekFrom::Start(offset))?;
    while length > 0 {
        let chunk = length.min(ZEROS.len() as u64) as usize;
        file.write_all(&ZEROS[..chunk])?;
        length -= chunk as u64;
    }
    Ok(())
}

/// Returns how many percent of the disk that holds `path` are in use, rounded up, of what this process may use; none
/// where that cannot be asked.
///
/// # Errors
///
/// Whatever the file system says.
pub(super) fn used_percent(path: &Path) -> io::Result<Option<u8>> {
    #[cfg(unix)]
    {
        let disk = rustix::fs::statvfs(path)?;
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        let entire = used.saturating_add(disk.f_bavail);
        let percent = used.saturating_mul(100).checked_div(entire);
        let rounded = percent.map(|percent| percent + u64::from(used.saturating_mul(100) % entire.max(1) != 0));
        Ok(rounded.map(|percent| percent.min(100) as u8))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(None)
    }
}

/// Brings the pages of a range into memory in one call, which is cheaper than one page fault each.
///
/// Only a help: kernels that do not know the call fault the pages in one by one when they are touched.
///
/// # Errors
///
/// [`io::ErrorKind::StorageFull`] if touching the range would kill the process because nothing backs it.
pub(super) fn prefault(map: &MmapRaw, offset: usize, length: usize) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = map.advise_range(memmap2::Advice::PopulateWrite, offset, length) {
        // EFAULT: the access would have raised SIGBUS.
        if error.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error()) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, error));
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (map, offset, length);
    Ok(())
}

/// Has the kernel read single pages of a mapping, not their neighbours too. Only a help.
pub(super) fn expect_no_order(map: &MmapRaw) {
    #[cfg(unix)]
    let _ = map.advise(memmap2::Advice::Random);
    #[cfg(not(unix))]
    let _ = map;
}

/// Returns where data comes next in `file` from `position` on, as far as the file system knows: what it skips is zeros.
/// None if nothing comes.
///
/// # Errors
///
/// Whatever the file system says.
pub(super) fn next_data(file: &File, position: u64) -> io::Result<Option<u64>> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::io::Errno;
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(position)) {
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(position)),
            other => Ok(Some(other?)),
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    Ok((position < file.metadata()?.len()).then_some(position))
}

/// Takes the exclusive lock on a store's lock file; it is held until `file` is closed.
///
/// Two locks are taken: the one of the open file keeps out a second store of this process and every other one of this
/// crate, the one of the process keeps out Apache's broker, which uses that kind. (The second is lost when this process
/// closes any other descriptor of the file, as it does after a failed attempt to open the store twice.)
///
/// # Errors
///
/// [`io::ErrorKind::WouldBlock`] if somebody else holds it.
pub(super) fn lock_exclusively(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use rustix::fs::FlockOperation::NonBlockingLockExclusive;
        use rustix::io::Errno;
        let blocked = |errno| match errno {
            Errno::ACCESS => Errno::WOULDBLOCK,
            other => other,
        };
        rustix::fs::flock(file, NonBlockingLockExclusive).map_err(blocked)?;
        rustix::fs::fcntl_lock(file, NonBlockingLockExclusive).map_err(blocked)?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Returns the size of the file system that holds `path`, and what of it is free, in bytes.
pub(super) fn disk_space(path: &Path) -> io::Result<(u64, u64)> {
    #[cfg(unix)]
    {
        let status = rustix::fs::statvfs(path)?;
        Ok((status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A full disk for tests: how many more bytes this thread may reserve.
#[cfg(test)]
pub(super) mod limit {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Sets how many bytes are left; `None` is no limit.
    pub(in crate::store) fn set(left: Option<u64>) {
        LEFT.set(left);
    }

    pub(super) fn take(length: u64) -> io::Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(left) if left >= length => {
                LEFT.set(Some(left - length));
                Ok(())
            }
            Some(_) => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}
