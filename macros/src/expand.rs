//! Expands the macro's arguments to items.

use crate::arguments::Arguments;
use onnxc::{Compiler, ModuleItems, diag::Diagnostics};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use std::{
    env,
    path::{Path, PathBuf, absolute},
    sync::atomic::{AtomicUsize, Ordering},
};
use syn::{LitStr, Result};

/// Returns the items of the module, and items that make rustc track the model's files.
pub fn expand(arguments: &Arguments) -> Result<TokenStream> {
    let literal = &arguments.model;
    let error = |text: String| syn::Error::new(literal.span(), text);
    let (place, path) = (literal.value(), locate(literal)?);
    let model = onnxc::file::read(&path).map_err(|io| error(format!("{place}: {io}")))?;
    let mut options = arguments.options.clone();
    let directory = path.parent().unwrap_or(Path::new("/"));
    options.settings.directory = Some(directory.to_owned());
    let ModuleItems { items, warnings, files } = Compiler::new(&options)
        .module_items(model, &path, weights_file().as_deref())
        .map_err(|diagnostics| error(diagnostics.within(&place).to_string()))?;
    let beside = files.iter().map(|file| directory.join(file));
    let sources = [path.clone()].into_iter().chain(beside).map(|path| track_file(&path, literal));
    let sources = sources.collect::<Result<TokenStream>>()?;
    let warnings = Diagnostics(warnings).within(&place).text().lines();
    let warnings: TokenStream = warnings.iter().map(|text| warning(text, literal)).collect();
    Ok(quote!(#items #sources #warnings))
}

/// Returns an item for which rustc prints a warning at the model's literal. A macro can report
/// errors only, but the use of a deprecated item is a warning with a text of choice.
fn warning(text: &str, literal: &LitStr) -> TokenStream {
    quote_spanned!(literal.span()=>
        const _: () = {
            #[deprecated(note = #text)]
            const MODEL: () = ();
            MODEL
        };
    )
}

/// Returns a path for the weights of a model, from which the program includes them: in the folder
/// of the other files that rustc writes for this crate, and with their name. Returns `None` if
/// another program than rustc expands the macro, or nobody names these.
fn weights_file() -> Option<PathBuf> {
    /// The number of models in this crate so far. Macros are expanded in the same order each time.
    static MODELS: AtomicUsize = AtomicUsize::new(0);

    let arguments: Vec<String> = env::args().collect();
    let (directory, name) = (value(&arguments, "--out-dir")?, value(&arguments, "--crate-name")?);
    let codegen = arguments.iter().map(|word| word.strip_prefix("-C").unwrap_or(word));
    let extra = codegen.filter_map(|word| word.strip_prefix("extra-filename=")).next_back();
    let model = MODELS.fetch_add(1, Ordering::Relaxed);
    let file = format!("{name}{}-{model}.weights", extra.unwrap_or_default());
    absolute(Path::new(directory).join(file)).ok()
}

/// Returns the value of an argument: `--name value` or `--name=value`.
fn value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    arguments.iter().enumerate().find_map(|(i, word)| match word.strip_prefix(name)? {
        "" => arguments.get(i + 1).map(String::as_str),
        value => value.strip_prefix('='),
    })
}

/// Returns the absolute path of the model: in the package, or else in the folder of the file that
/// calls the macro.
fn locate(literal: &LitStr) -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let file = literal.span().unwrap().local_file();
    let beside = file.as_deref().and_then(Path::parent).map(Path::to_owned);
    let mut paths = [package, beside].into_iter().flatten().map(|base| base.join(literal.value()));
    let found = paths.find(|path| path.is_file()).and_then(|path| absolute(path).ok());
    found.ok_or_else(|| {
        let text = format!(
            "there is no file `{}`, neither in the package nor beside this file",
            literal.value()
        );
        syn::Error::new(literal.span(), text)
    })
}

/// Returns an item that makes rustc track a file as a dependency.
fn track_file(path: &Path, literal: &LitStr) -> Result<TokenStream> {
    let path = path.to_str().ok_or_else(|| {
        syn::Error::new(literal.span(), format!("the path {} is not UTF-8", path.display()))
    })?;
    Ok(quote!(
        const _: &[u8] = ::core::include_bytes!(#path);
    ))
}
