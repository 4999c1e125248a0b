//! Opens files inside a directory, and nothing outside.
//!
//! No component of the path may be a link. Checks apply to the opened file, so that nobody can
//! replace it between check and use.

use std::{fs::File, io, path::Path};

/// Opens the file at `path`, relative to `directory`. `path` has normal components only.
pub fn open(directory: &Path, path: &Path) -> io::Result<File> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    system::open(directory, path)
}

/// The reason why an opened file may not hold tensors, if there is one.
pub fn fault(file: &File) -> io::Result<Option<&'static str>> {
    if !file.metadata()?.is_file() {
        return Ok(Some("`location` must be a regular file"));
    }
    let names = system::names(file)?;
    Ok((names != 1).then_some("the file has a second name (a hard link)"))
}

/// Returns whether an error means that a link was found.
pub fn is_link(error: &io::Error) -> bool {
    system::is_link(error)
}

#[cfg(unix)]
mod system {
    use rustix::{
        fd::{AsFd, OwnedFd},
        fs::{Mode, OFlags, openat},
        io::Errno,
    };
    use std::{ffi::OsStr, fs::File, io, os::unix::fs::MetadataExt, path::Path};

    /// A pipe must not block the compiler until someone writes to it.
    const FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
    const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

    pub fn open(directory: &Path, path: &Path) -> io::Result<File> {
        let directory = rustix::fs::open(directory, DIRECTORY, Mode::empty())?;
        #[cfg(target_os = "linux")]
        match at_once(&directory, path) {
            // Old kernels lack the system call, and sandboxes forbid it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(opened?.into()),
        }
        Ok(step_by_step(directory, path)?.into())
    }

    /// Opens the file by `openat2`, with which the kernel resolves the path beneath the directory.
    #[cfg(target_os = "linux")]
    pub fn at_once(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
        use rustix::fs::{ResolveFlags, openat2};
        let inside = ResolveFlags::BENEATH
            .union(ResolveFlags::NO_SYMLINKS)
            .union(ResolveFlags::NO_MAGICLINKS);
        openat2(directory, path, FILE, Mode::empty(), inside)
    }

    /// Opens one directory after the other, each relative to the one before.
    pub fn step_by_step(mut directory: OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
        let names: Vec<&OsStr> = path.iter().collect();
        let (file, directories) = names.split_last().ok_or(Errno::NOENT)?;
        for name in directories {
            let step = DIRECTORY.union(OFlags::NOFOLLOW);
            directory = openat(&directory, *name, step, Mode::empty())?;
        }
        openat(&directory, *file, FILE.union(OFlags::NOFOLLOW), Mode::empty())
    }

    pub fn names(file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.nlink())
    }

    pub fn is_link(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
    }
}

#[cfg(windows)]
mod system {
    use std::{
        fs::{File, OpenOptions},
        io,
        os::windows::fs::{MetadataExt, OpenOptionsExt},
        path::Path,
    };
    use winapi_util::file::information;

    /// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a link itself, not its target.
    const OPEN_LINK: u32 = 0x0020_0000;
    /// `FILE_FLAG_BACKUP_SEMANTICS`: directories can only be opened with it.
    const DIRECTORIES_TOO: u32 = 0x0200_0000;
    /// `FILE_SHARE_READ`: nobody can rename or write to a component of the path while it is open.
    const READ_ONLY: u32 = 1;
    /// `FILE_ATTRIBUTE_REPARSE_POINT`: a link of any kind.
    const LINK: u32 = 0x400;

    pub fn open(directory: &Path, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).share_mode(READ_ONLY).custom_flags(OPEN_LINK | DIRECTORIES_TOO);
        let mut way = Vec::new();
        let mut place = directory.to_owned();
        for name in path {
            place.push(name);
            let opened = options.open(&place)?;
            if opened.metadata()?.file_attributes() & LINK != 0 {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            way.push(opened);
        }
        way.pop().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    pub fn names(file: &File) -> io::Result<u64> {
        Ok(information(file)?.number_of_links())
    }

    pub fn is_link(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::InvalidInput
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    use std::{fs::File, io, path::Path};

    pub fn open(_: &Path, _: &Path) -> io::Result<File> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn names(_: &File) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn is_link(_: &io::Error) -> bool {
        false
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::system;
    use std::{fs, os::unix::fs::symlink, path::Path};

    #[test]
    fn both_ways_to_open_a_file_reject_links() {
        let root = std::env::temp_dir().join(format!("onnxc-open-{}", std::process::id()));
        fs::create_dir_all(root.join("inside/deep"))
            .expect("the temporary directory can be written");
        fs::write(root.join("outside"), "no").expect("the test made the directory");
        fs::write(root.join("inside/deep/file"), "yes").expect("the test made the directory");
        let base = root.join("inside");
        for (to, from) in
            [("../outside", "file_link"), ("deep", "directory_link"), ("/etc", "deep/absolute")]
        {
            symlink(to, base.join(from)).expect("the test made the directory");
        }
        let flags = rustix::fs::OFlags::RDONLY;
        let directory = || rustix::fs::open(&base, flags, rustix::fs::Mode::empty());
        for (path, opens) in [
            ("deep/file", true),
            ("file_link", false),
            ("directory_link/file", false),
            ("deep/absolute/hostname", false),
            ("nothing", false),
            ("deep/file/more", false),
        ] {
            let path = Path::new(path);
            let stepped =
                system::step_by_step(directory().expect("the test made the directory"), path);
            assert_eq!(stepped.is_ok(), opens, "{}", path.display());
            assert_eq!(super::open(&base, path).is_ok(), opens, "{}", path.display());
            #[cfg(target_os = "linux")]
            {
                let opened =
                    system::at_once(directory().expect("the test made the directory"), path);
                let known =
                    !matches!(opened, Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM));
                assert!(!known || opened.is_ok() == opens, "{}", path.display());
            }
        }
        #[cfg(target_os = "linux")]
        for path in ["../outside", "/etc/hostname", "deep/../../outside"] {
            let opened =
                system::at_once(directory().expect("the test made the directory"), Path::new(path));
            assert!(opened.is_err(), "{path}");
        }
        fs::remove_dir_all(root).expect("the test made the directory");
    }
}
