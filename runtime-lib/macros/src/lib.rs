//! Finds the weights file of a generated module, for `include_weights!` of `onnxc-runtime`.
//!
//! An assembler resolves the path of a file against the folder in which rustc runs, not against the
//! source file. Only a procedural macro knows where the source file is.

use proc_macro::{Delimiter, Group, Literal, Punct, Spacing, TokenStream, TokenTree};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf, absolute},
};

/// The size of the trailer of a weights file, `onnxc_runtime::arena::Trailer::BYTES`.
const TRAILER_BYTES: usize = 24;

/// Calls `__link_weights!` of `onnxc-runtime` with the weights file. If there is no such file,
/// calls `__copy_weights!`, which reports the error.
///
/// The input is the path of the crate `onnxc-runtime`, and in parentheses the arguments of
/// `include_weights!`: a path relative to the source file, a comma and an expression.
#[doc(hidden)]
#[proc_macro]
pub fn find_weights(input: TokenStream) -> TokenStream {
    let mut output: Vec<TokenTree> = input.into_iter().collect();
    let Some(TokenTree::Group(arguments)) = output.pop() else { return TokenStream::new() };
    let mut arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
    let found = arguments.first().and_then(locate).and_then(|path| WeightsFile::read(&path));
    let name = if found.is_some() { "::__link_weights!" } else { "::__copy_weights!" };
    if let Some(file) = found {
        arguments.splice(..1, file.tokens());
    }
    output.extend(name.parse::<TokenStream>().expect("these are tokens"));
    output.push(Group::new(Delimiter::Brace, TokenStream::from_iter(arguments)).into());
    TokenStream::from_iter(output)
}

/// Returns the absolute path of the file that a literal names. As for `include_bytes!`, the path is
/// relative to the source file with the literal.
fn locate(file: &TokenTree) -> Option<PathBuf> {
    let literal = match file {
        TokenTree::Literal(literal) => literal,
        // Declarative macros pass literals on in such groups.
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            return locate(&group.stream().into_iter().next()?);
        }
        _ => return None,
    };
    let text = literal.to_string();
    let name = text.strip_prefix('"')?.strip_suffix('"').filter(|name| !name.contains('\\'))?;
    absolute(literal.span().local_file()?.parent()?.join(name)).ok()
}

/// A weights file.
struct WeightsFile {
    path: String,
    /// The size of the weights in bytes, without the trailer.
    bytes: u64,
    trailer: [u8; TRAILER_BYTES],
}

impl WeightsFile {
    /// Reads the trailer of a file. Returns `None` if there is none, or if the path cannot be
    /// written in a line of assembly.
    fn read(path: &Path) -> Option<WeightsFile> {
        let path = path.to_str().filter(|path| !path.contains(char::is_control))?.to_owned();
        let (bytes, trailer) = read_trailer(&path).ok()?;
        Some(WeightsFile { path, bytes, trailer })
    }

    /// Returns the first arguments of `__link_weights!`.
    fn tokens(&self) -> impl Iterator<Item = TokenTree> {
        // The symbol consists of the layout and the checksum, so that equal weights share it.
        let identifier = self.trailer[8..].iter().map(|byte| format!("{byte:02x}"));
        let symbol = format!("onnxc_weights_{}", String::from_iter(identifier));
        // Braces are special in the templates of assembly, the others in its strings.
        let quoted = self.path.chars().flat_map(|c| match c {
            '\\' | '"' => [Some('\\'), Some(c)],
            '{' | '}' => [Some(c), Some(c)],
            _ => [None, Some(c)],
        });
        let quoted = String::from_iter(quoted.flatten());
        let literals = [
            Literal::string(&self.path),
            Literal::string(&quoted),
            Literal::string(&symbol),
            Literal::u64_unsuffixed(self.bytes),
            Literal::byte_string(&self.trailer),
        ];
        let comma = || Punct::new(',', Spacing::Alone).into();
        let separated = literals.into_iter().enumerate();
        separated.flat_map(move |(i, literal)| {
            (i > 0).then(comma).into_iter().chain([TokenTree::from(literal)])
        })
    }
}

/// Returns the number of bytes before the trailer, and the trailer.
fn read_trailer(path: &str) -> io::Result<(u64, [u8; TRAILER_BYTES])> {
    let mut file = File::open(path)?;
    let mut trailer = [0; TRAILER_BYTES];
    let bytes = file.seek(SeekFrom::End(-(TRAILER_BYTES as i64)))?;
    file.read_exact(&mut trailer)?;
    Ok((bytes, trailer))
}
