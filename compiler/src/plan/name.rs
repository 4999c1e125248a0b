//! Names of nodes and values in run-time errors.

use super::{Field, SizeText, Symbols};
use crate::diag::line;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The name of a node, for a kernel's error about sizes.
#[derive(Clone, Debug)]
pub struct Name(pub String);

/// Returns a name on one line with a static lifetime; interns each name once.
pub fn kept(name: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let name = line(name);
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all.get(name.as_str()) {
        return found;
    }
    let name: &str = name.leak();
    all.insert(name);
    name
}

impl Field for Name {
    type Number = &'static str;
    type Given<'a> = &'static str;

    fn source(&self, _: &SizeText<'_>) -> String {
        format!("{:?}", line(&self.0))
    }

    fn number(&self, _: &Symbols<'_>) -> &'static str {
        kept(&self.0)
    }

    fn give(number: &&'static str) -> &'static str {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let [first, second] = [(); 2].map(|()| kept("a node\n"));
        assert!(std::ptr::eq(first, second));
        assert_eq!(first, r"a node\u{a}");
        assert_eq!(Name("a \"b\"".into()).source(&|size| format!("{size:?}")), r#""a \"b\"""#);
    }
}
