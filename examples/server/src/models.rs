//! The model in use, and how it is replaced.

use crate::{Result, digits::Digits};
use memmap2::Mmap;
use onnxc_runtime::arena::Weights;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The model in use.
#[derive(Debug)]
pub struct Models {
    current: RwLock<Arc<Digits>>,
    /// Where the weights of clients are stored.
    folder: PathBuf,
    /// The number of models that were in use before.
    replaced: AtomicUsize,
}

impl Models {
    /// Maps the weights in `file`. The weights of clients are stored in `folder`.
    pub fn new(file: &Path, folder: &Path) -> Result<Models> {
        fs::create_dir_all(folder)?;
        // SAFETY: nobody changes the file while the program runs.
        let map = unsafe { Mmap::map(&File::open(file)?)? };
        let model = Digits::with_weights(Arc::new(map))?;
        let current = RwLock::new(Arc::new(model));
        Ok(Models { current, folder: folder.into(), replaced: AtomicUsize::new(0) })
    }

    /// Returns the model in use, which stays valid if it is replaced.
    pub fn current(&self) -> Arc<Digits> {
        // The lock guards one pointer, which a panic cannot leave half written.
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores weights in a new file, and uses a model with them from now on.
    pub fn replace(&self, weights: &[u8]) -> Result {
        let number = self.replaced.fetch_add(1, Ordering::Relaxed);
        let mapped = MappedFile::create(self.folder.join(format!("{number}.weights")), weights)?;
        let weights = Weights::from(Arc::new(mapped));
        // Files of other models are rejected before any is read as a whole.
        let weights = weights.check(Digits::WEIGHT_BYTES, Digits::WEIGHT_LAYOUT)?;
        weights.verify()?;
        let model = Arc::new(Digits::with_weights(weights)?);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, model);
        drop(current);
        // If no request runs with it, the old file is unmapped here, after the lock is free.
        drop(old);
        Ok(())
    }
}

/// A file that is mapped, and removed when it is no longer used.
struct MappedFile {
    map: Mmap,
    /// Dropped after the map: some systems remove no file that is mapped.
    _file: RemovedFile,
}

impl MappedFile {
    fn create(path: PathBuf, bytes: &[u8]) -> std::io::Result<MappedFile> {
        fs::write(&path, bytes)?;
        let file = RemovedFile(path);
        // SAFETY: only this function writes to the file, whose name is new.
        let map = unsafe { Mmap::map(&File::open(&file.0)?)? };
        Ok(MappedFile { map, _file: file })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// A file that is removed when it is dropped.
struct RemovedFile(PathBuf);

impl Drop for RemovedFile {
    fn drop(&mut self) {
        // A file that cannot be removed is left to the system's cleanup of temporary files.
        let _ = fs::remove_file(&self.0);
    }
}
