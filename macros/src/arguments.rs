//! The arguments of `include_onnx!`.

use onnxc::{
    Options, Weights,
    diag::Diagnostic,
    import::{Axis, Const, Size},
    options::{ARGUMENTS, Form, operator},
};
use proc_macro2::Span;
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Display,
    str::FromStr,
};
use syn::{
    Ident, Lit, LitBool, LitInt, LitStr, Path, Result, Token, bracketed,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
};

/// The arguments of the macro.
pub struct Arguments {
    /// The path of the model.
    pub model: LitStr,
    /// The options.
    pub options: Options,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Arguments> {
        let model = input.parse()?;
        let mut options = Options::default();
        options.weights = Weights::Inline;
        let mut given = HashSet::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let name = input.call(Ident::parse_any)?;
            if !given.insert(name.to_string()) {
                return Err(syn::Error::new(name.span(), format!("`{name}` is given twice")));
            }
            option(&name, input, &mut options)?;
        }
        Ok(Arguments { model, options })
    }
}

/// The arguments that are lists, each with the command-line option that sets one entry.
const LISTS: &[(&str, &str)] = &[
    ("dims", "dim"),
    ("shapes", "shape"),
    ("consts", "const"),
    ("types", "type"),
    ("limits", "limit"),
];

/// Parses the value of the option called `name`.
fn option(name: &Ident, input: ParseStream<'_>, options: &mut Options) -> Result<()> {
    let settings = &mut options.settings;
    match name.to_string().as_str() {
        "dims" => settings.dims = entries(input, str::to_owned, assigned(size))?,
        "shapes" => settings.shapes = entries(input, str::to_owned, assigned(axes))?,
        "consts" => settings.consts = entries(input, str::to_owned, constant)?,
        "state" => settings.states = entries(input, str::to_owned, assigned(name_of_value))?,
        "custom" => settings.customs = entries(input, operator, assigned(function))?,
        "types" => settings.types = entries(input, str::to_owned, assigned(name_of_value))?,
        "limits" => return limits(input, options),
        _ => return value_of(name, input, options),
    }
    Ok(())
}

/// Parses `(NAME = N, …)`.
fn limits(input: ParseStream<'_>, options: &mut Options) -> Result<()> {
    let number = |input: ParseStream<'_>| {
        input.parse::<Token![=]>()?;
        input.parse::<LitInt>()
    };
    for (name, number) in entries(input, |name| name.replace('_', "-"), number)? {
        let set = options.limit(&format!("{name}={}", with_unit(&number)));
        set.map_err(|error| syn::Error::new(number.span(), error.message))?;
    }
    Ok(())
}

/// Parses `= VALUE`, where the command-line option called `name` determines the form of the value.
fn value_of(name: &Ident, input: ParseStream<'_>, options: &mut Options) -> Result<()> {
    let option = name.to_string().replace('_', "-");
    let argument = ARGUMENTS.iter().find(|argument| argument.name == option);
    let form = argument.map(|argument| argument.form);
    let Some(form) = form.filter(|form| !matches!(form, Form::List(_))) else {
        return Err(unknown(name));
    };
    input.parse::<Token![=]>()?;
    let span = input.span();
    let text = match form {
        Form::Text(_) | Form::List(_) => input.parse::<LitStr>()?.value(),
        Form::Number(_) if input.peek(LitStr) => input.parse::<LitStr>()?.value(),
        Form::Number(_) => with_unit(&input.parse()?),
        Form::Flag => input.parse::<LitBool>()?.value.to_string(),
        Form::Word(..) => input.call(Ident::parse_any)?.to_string().replace('_', "-"),
    };
    options.set(&option, &text).map_err(|error| syn::Error::new(span, error.message))?;
    if options.weights != Weights::Inline {
        let text = "a macro writes no file: the weights are `inline`, or a build script compiles \
                    the model";
        return Err(syn::Error::new(name.span(), text));
    }
    Ok(())
}

/// Returns a number of bytes with its unit, which is a suffix for Rust: `64K`.
fn with_unit(number: &LitInt) -> String {
    format!("{}{}", number.base10_digits(), number.suffix())
}

/// Parses an integer.
fn integer<T: FromStr<Err: Display>>(input: ParseStream<'_>) -> Result<T> {
    let number = input.parse::<LitInt>()?;
    without_suffix(number.suffix(), number.span())?;
    number.base10_parse()
}

/// Returns an error for a number like `64K`, which is not 64.
fn without_suffix(suffix: &str, place: Span) -> Result<()> {
    if suffix.is_empty() {
        return Ok(());
    }
    Err(syn::Error::new(place, format!("expected a number without the suffix `{suffix}`")))
}

/// Returns the error for an unknown option.
fn unknown(name: &Ident) -> syn::Error {
    let names = ARGUMENTS.iter().map(|argument| {
        let list = LISTS.iter().find(|(_, option)| *option == argument.name);
        format!("`{}`", list.map_or(argument.name.replace('-', "_"), |(list, _)| (*list).into()))
    });
    let names: Vec<String> = names.collect();
    let text = format!("there is no option `{name}`; the options are {}", names.join(", "));
    syn::Error::new(name.span(), text)
}

/// Parses `(NAME …, NAME …)`: `key` converts each name, and `entry` parses the rest of its entry.
fn entries<K: Ord, T>(
    input: ParseStream<'_>,
    key: impl Fn(&str) -> K,
    entry: impl Fn(ParseStream<'_>) -> Result<T>,
) -> Result<BTreeMap<K, T>> {
    let inside;
    parenthesized!(inside in input);
    let named = |input: ParseStream<'_>| {
        let (place, name) = (input.span(), name_of_value(input)?);
        Ok((place, name, entry(input)?))
    };
    let mut entries = BTreeMap::new();
    for (place, name, value) in list(&inside, named)? {
        if entries.insert(key(&name), value).is_some() {
            return Err(syn::Error::new(place, format!("`{name}` is given twice")));
        }
    }
    Ok(entries)
}

/// Parses a name in the model: an identifier or a string.
fn name_of_value(input: ParseStream<'_>) -> Result<String> {
    if input.peek(LitStr) {
        return Ok(input.parse::<LitStr>()?.value());
    }
    Ok(input.call(Ident::parse_any)?.unraw().to_string())
}

/// Returns a parser of `=` and the value that `value` parses.
fn assigned<T>(value: fn(ParseStream<'_>) -> Result<T>) -> impl Fn(ParseStream<'_>) -> Result<T> {
    move |input| {
        input.parse::<Token![=]>()?;
        value(input)
    }
}

/// Parses items separated by commas, up to the end of the input.
fn list<T>(input: ParseStream<'_>, item: impl Fn(ParseStream<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    while !input.is_empty() {
        items.push(item(input)?);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(items)
}

/// Parses the path of a function.
fn function(input: ParseStream<'_>) -> Result<String> {
    let path: Path = input.parse()?;
    let segments = path.segments.iter().map(|segment| segment.ident.to_string());
    let root = if path.leading_colon.is_some() { "::" } else { "" };
    Ok(format!("{root}{}", segments.collect::<Vec<_>>().join("::")))
}

/// Parses `N`, `1..=N`, or the name of a dimension.
fn size(input: ParseStream<'_>) -> Result<Size> {
    if !input.peek(LitInt) {
        let (place, name) = (input.span(), name_of_value(input)?);
        return name.parse().map_err(|error: Diagnostic| syn::Error::new(place, error.message));
    }
    let first = integer::<i64>(input)?;
    if !input.peek(Token![..=]) {
        return Ok(first.into());
    }
    input.parse::<Token![..=]>()?;
    Ok((first..=integer(input)?).into())
}

/// Parses `[1, 3, height, "width"]`: the axes of an input, each a size or a name.
fn axes(input: ParseStream<'_>) -> Result<Vec<Axis>> {
    let inside;
    bracketed!(inside in input);
    list(&inside, |input| {
        if input.peek(LitInt) {
            return integer(input).map(Axis::Fixed);
        }
        name_of_value(input).map(Axis::Named)
    })
}

/// Parses `= VALUE`, or nothing for the default of an input.
fn constant(input: ParseStream<'_>) -> Result<Const> {
    if !input.peek(Token![=]) {
        return Ok(Const::Default);
    }
    assigned(value)(input).map(Const::Value)
}

/// Parses a number, `true`, `false` or a string, or several in brackets. Returns the value for
/// `--const`.
fn value(input: ParseStream<'_>) -> Result<String> {
    if !input.peek(syn::token::Bracket) {
        return scalar(input);
    }
    let inside;
    bracketed!(inside in input);
    Ok(format!("[{}]", list(&inside, item)?.join(", ")))
}

/// Parses an element of a list. A string is quoted, because it may contain a comma.
fn item(input: ParseStream<'_>) -> Result<String> {
    let is_text = input.peek(LitStr);
    let text = scalar(input)?;
    Ok(match is_text {
        true => format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")),
        false => text,
    })
}

fn scalar(input: ParseStream<'_>) -> Result<String> {
    let sign = if input.parse::<Option<Token![-]>>()?.is_some() { "-" } else { "" };
    Ok(match input.parse()? {
        Lit::Int(number) => {
            without_suffix(number.suffix(), number.span())?;
            format!("{sign}{}", number.base10_digits())
        }
        Lit::Float(number) => {
            without_suffix(number.suffix(), number.span())?;
            format!("{sign}{}", number.base10_digits())
        }
        Lit::Bool(truth) if sign.is_empty() => truth.value.to_string(),
        Lit::Str(text) if sign.is_empty() => text.value(),
        other => {
            return Err(syn::Error::new(
                other.span(),
                "expected a number, `true`, `false` or a string",
            ));
        }
    })
}
