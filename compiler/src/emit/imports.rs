//! The names that a module imports from the runtime library.

use super::tokens;
use crate::dtype::DType;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// The `use` lines of a module. Of two items with the same name, the first is imported, and the
/// other is named by its path.
pub struct Imports {
    /// The path of each imported name, relative to `onnxc_runtime`.
    paths: RefCell<BTreeMap<String, String>>,
    /// The public types of the module, whose names no import may have.
    public: [String; 2],
}

impl Imports {
    /// Creates the imports of the geometries, which the module's source names without paths.
    pub fn new(public: [String; 2], geometries: &BTreeSet<&str>) -> Imports {
        let imports = Imports { paths: RefCell::default(), public };
        geometries.iter().for_each(|path| {
            imports.import(path);
        });
        imports
    }

    /// Names an item: a type, a function that no variable can hide, or a module.
    pub fn item(&self, path: &str) -> TokenStream {
        let (module, name) = split(path);
        let name = format_ident!("{name}");
        if self.import(path) {
            return name.into_token_stream();
        }
        if module.is_empty() {
            return quote!(::onnxc_runtime::#name);
        }
        let module = self.item(module);
        quote!(#module::#name)
    }

    /// Names a function by its module: `view::check_size`.
    pub fn function(&self, path: &str) -> TokenStream {
        let (module, name) = split(path);
        let (module, name) = (self.item(module), format_ident!("{name}"));
        quote!(#module::#name)
    }

    /// Names an element type.
    pub fn element(&self, dtype: DType) -> TokenStream {
        let rust = dtype.rust();
        let Some(path) = rust.strip_prefix("::onnxc_runtime::") else {
            return tokens::parse_tokens(rust);
        };
        let (path, parameters) = path.find('<').map_or((path, ""), |at| path.split_at(at));
        let (name, parameters) = (self.item(path), tokens::parse_tokens(parameters));
        quote!(#name #parameters)
    }

    /// Names a type of the prelude, which is in `module` of the core library.
    pub fn prelude(&self, module: &str, name: &str) -> TokenStream {
        let (module, ident) = (format_ident!("{module}"), format_ident!("{name}"));
        if self.is_public(name) { quote!(::core::#module::#ident) } else { quote!(#ident) }
    }

    /// Returns whether the item at `path` is imported.
    pub fn contains(&self, path: &str) -> bool {
        self.paths.borrow().get(split(path).1).is_some_and(|found| found == path)
    }

    /// Returns a `use` item for each module of the runtime library.
    pub fn items(&self) -> TokenStream {
        let paths = self.paths.borrow();
        let mut modules: BTreeMap<&str, Vec<Ident>> = BTreeMap::new();
        for (name, path) in paths.iter() {
            modules.entry(split(path).0).or_default().push(format_ident!("{name}"));
        }
        let uses = modules.into_iter().map(|(module, names)| {
            let module = module.split("::").filter(|name| !name.is_empty());
            let module = module.map(|name| format_ident!("{name}"));
            match names.as_slice() {
                [name] => quote!(use ::onnxc_runtime::#(#module::)*#name;),
                _ => quote!(use ::onnxc_runtime::#(#module::)*{#(#names),*};),
            }
        });
        quote!(#(#uses)*)
    }

    /// Returns the features of the runtime library that its modules need.
    pub fn features(&self) -> BTreeSet<&'static str> {
        let paths = self.paths.borrow();
        let modules = paths.values().filter_map(|path| path.strip_prefix("kernels::"));
        modules.filter_map(|path| feature(path.split("::").next()?)).collect()
    }

    fn is_public(&self, name: &str) -> bool {
        self.public.iter().any(|public| public == name)
    }

    /// Imports an item, unless its name is taken. Returns whether it is imported.
    fn import(&self, path: &str) -> bool {
        let name = split(path).1;
        if self.is_public(name) {
            return false;
        }
        let mut paths = self.paths.borrow_mut();
        paths.entry(name.to_owned()).or_insert_with(|| path.to_owned()) == path
    }
}

/// Returns the feature of the runtime library without which a module of kernels is left out.
fn feature(module: &str) -> Option<&'static str> {
    Some(match module {
        "attention" => "attention",
        "blocked" | "conv" => "conv",
        "nhwc" | "quantized" => "int8",
        "blockwise" | "einsum" | "matmul" | "weight_precision" => "matmul",
        "pool" => "pool",
        "rnn" => "rnn",
        _ => return None,
    })
}

/// Splits a path into its module, which may be empty, and its last name.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once("::").unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports() -> Imports {
        let public = ["View", "ViewArena"].map(String::from);
        Imports::new(public, &["kernels::conv::Conv", "rnn::Sequence"].into())
    }

    #[test]
    fn a_name_that_is_taken_is_spelled_by_its_path() {
        let imports = imports();
        let spelled = |path| imports.item(path).to_string().replace(' ', "");
        assert_eq!(spelled("arena::Slot"), "Slot");
        assert_eq!(spelled("sequence::Sequence"), "sequence::Sequence");
        assert_eq!(spelled("view::View"), "view::View");
        assert_eq!(imports.prelude("option", "Option").to_string(), "Option");
    }

    #[test]
    fn each_module_has_one_use_line() {
        let imports = imports();
        imports.item("arena::Slot");
        imports.item("arena::borrow");
        imports.function("view::check_size");
        let expected = quote! {
            use ::onnxc_runtime::view;
            use ::onnxc_runtime::arena::{Slot, borrow};
            use ::onnxc_runtime::kernels::conv::Conv;
            use ::onnxc_runtime::rnn::Sequence;
        };
        assert_eq!(imports.items().to_string(), expected.to_string());
    }
}
