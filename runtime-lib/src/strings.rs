//! The strings of a generated module: its constants, and those of its inputs.

use alloc::string::String;
use alloc::vec::Vec;

/// Constant tensors of strings.
pub type Constants<const N: usize> = [Vec<String>; N];

/// Constant tensors of strings, as kernels read them. They are allocated when they are first used,
/// because a constant cannot allocate.
#[derive(Clone, Debug)]
pub struct Strings<const N: usize>(Constants<N>);

impl<const N: usize> Strings<N> {
    /// Creates the strings without allocating them.
    pub const fn new() -> Strings<N> {
        Strings([const { Vec::new() }; N])
    }

    /// Returns the strings of `texts`, which must be the same in every call.
    pub fn of(&mut self, texts: &[&[&str]; N]) -> &Constants<N> {
        for (made, texts) in self.0.iter_mut().zip(texts) {
            if made.len() != texts.len() {
                *made = to_strings(texts);
            }
        }
        &self.0
    }
}

impl<const N: usize> Default for Strings<N> {
    fn default() -> Strings<N> {
        Strings::new()
    }
}

/// Returns texts of the caller as elements.
pub fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_strings_once() {
        let mut strings = Strings::new();
        let texts: [&[&str]; 3] = [&["a", "bc"], &[], &[""]];
        let made = strings.of(&texts).each_ref().map(|made| made.as_ptr());
        assert_eq!(strings.of(&texts)[0], ["a", "bc"]);
        assert!(strings.of(&texts)[1].is_empty());
        assert_eq!(strings.of(&texts).each_ref().map(|made| made.as_ptr()), made);
    }
}
