//! What a user can say about how a model is compiled: one set of options for the program, the
//! build script and the macro.

use crate::{
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, Result, quoted},
    domain::{self, canonical},
    emit::{ArenaIn, Source, Style, WeightsIn},
    ident,
    import::{Axis, Const, Defaults, Operator, Settings, Size},
    passes::OwnPass,
    plan::{Optimize, Plan, Precision},
};
use std::{collections::BTreeMap, ops::RangeInclusive, path::Path};

/// Arenas of at most so many bytes stand in the model's struct, where the options say nothing.
const LARGEST_IN_STRUCT: usize = 64 * 1024;

/// How a model is compiled.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The name of the model, from which the struct has its own; by default the file's.
    pub name: Option<String>,
    /// What the files that are written are called, without what follows the dot; by default as the
    /// model's.
    pub stem: Option<String>,
    /// Sizes and constants that the user settles.
    pub settings: Settings,
    /// Passes of the caller's own, which run in order, before onnxc's.
    pub passes: Vec<OwnPass>,
    /// What matters most: time, or space.
    pub optimize: Optimize,
    /// In how many bits the weights stand.
    pub precision: Precision,
    /// Where the weights stand.
    pub weights: Weights,
    /// How many bytes the arena may have, without limit by default: values are computed again where it
    /// would be larger.
    pub max_arena: Option<usize>,
    /// Where the arena is; by default one of up to 64 KiB is in the struct, a larger one on the heap.
    pub arena: Option<ArenaIn>,
}

/// Where the weights stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// In a file beside the module.
    #[default]
    File,
    /// In the module, as a byte string.
    Inline,
}

impl Options {
    /// Takes in `NAME=N` or `NAME=1..=N`: the size of a dimension, or its bound.
    pub fn dim(&mut self, text: &str) -> Result {
        let (name, size) = split(text, "--dim NAME=N")?;
        let bad = || {
            let message = format!("the size {} of a dimension must be N or 1..=N", quoted(size));
            Diagnostic::new(Code::BadOption, message)
        };
        let size = match size.split_once("..=") {
            None => size.parse().map(Size::Fixed),
            Some((least, most)) => {
                let least = least.trim().parse().map_err(|_| bad())?;
                most.trim().parse().map(|most| Size::Between(least, most))
            }
        };
        let size = size.map_err(|_| bad())?;
        insert_once(&mut self.settings.dims, "dimension", name, name.to_owned(), size)
    }

    /// Takes in `NAME=1,3,height,width`: the sizes of an input whose number of axes the model does
    /// not say, each a number or the name of a dimension.
    pub fn shape(&mut self, text: &str) -> Result {
        let (name, sizes) = split(text, "--shape NAME=SIZE,…")?;
        let axes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
        let axes = axes.map(|size| size.parse::<i64>().map_or_else(|_| size.into(), Axis::Fixed));
        insert_once(&mut self.settings.shapes, "shape of", name, name.to_owned(), axes.collect())
    }

    /// Takes in `NAME=VALUE`, an input that is a constant, or `NAME`, one that is its default.
    pub fn constant(&mut self, text: &str) -> Result {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Const::Value(value.trim().to_owned())),
            None => (text, Const::Default),
        };
        let name = name.trim();
        insert_once(&mut self.settings.consts, "constant", name, name.to_owned(), value)
    }

    /// Takes in `PAST=PRESENT`: an input, and the output that the next run finds there.
    pub fn state(&mut self, text: &str) -> Result {
        let (past, present) = split(text, "--state PAST=PRESENT")?;
        let states = &mut self.settings.states;
        insert_once(states, "state", past, past.to_owned(), present.to_owned())
    }

    /// Takes in `DOMAIN::OPERATOR=PATH`: the function that is called for an operator.
    pub fn custom(&mut self, text: &str) -> Result {
        let (name, function) = split(text, "--custom DOMAIN::OPERATOR=PATH")?;
        let customs = &mut self.settings.customs;
        insert_once(customs, "function for", name, operator(name), function.to_owned())
    }

    /// Takes in `NAME=TYPE`: the type of what an operator of the user's own gives.
    pub fn ty(&mut self, text: &str) -> Result {
        let (name, ty) = split(text, "--type NAME=TYPE")?;
        insert_once(&mut self.settings.types, "type of", name, name.to_owned(), ty.to_owned())
    }

    /// Has the external data of the model at `path` be read beside it, where no directory is said.
    pub fn beside(mut self, path: &Path) -> Options {
        let directory = &mut self.settings.directory;
        *directory = directory.take().or_else(|| path.parent().map(Path::to_owned));
        self
    }

    /// Checks the options against each other, before a model is read.
    ///
    /// # Errors
    ///
    /// Every pair of options that exclude each other.
    pub fn validate(&self) -> std::result::Result<(), Diagnostics> {
        let diagnostics = DiagnosticSink::default();
        if self.optimize == Optimize::Size && self.precision != Precision::Full {
            let message =
                "weights in fewer bits are widened into memory that small code is to save";
            let help = "leave out `--precision`, or `--optimize size`";
            diagnostics.push(Diagnostic::new(Code::BadOption, message).help(help));
        }
        if !self.settings.states.is_empty() && self.arena == Some(ArenaIn::Caller) {
            diagnostics.push(shared_state());
        }
        diagnostics.finish()
    }

    /// Returns the style of the module of `plan`; `stem` is the name of the model file without its
    /// extension.
    ///
    /// # Errors
    ///
    /// The model has variables, but its arena is the caller's.
    pub fn style(&self, plan: &Plan, stem: &str) -> Result<Style> {
        let stem = self.stem.as_deref().unwrap_or(stem);
        let name = self.name.clone().unwrap_or_else(|| stem.to_owned());
        let weights = match self.weights {
            Weights::Inline => WeightsIn::Module,
            Weights::File => WeightsIn::File(format!("{}.weights", ident::snake(stem))),
        };
        let small = plan.arena_bytes <= LARGEST_IN_STRUCT;
        let arena = self.arena.unwrap_or(if small { ArenaIn::Struct } else { ArenaIn::Heap });
        if !plan.states.is_empty() && arena == ArenaIn::Caller {
            return Err(shared_state());
        }
        Ok(Style { name, weights, arena, source: Source::default() })
    }

    /// Returns the options that differ from their defaults, as the command line spells them. Passes
    /// of the caller and the names of files have no such spelling.
    pub fn to_arguments(&self) -> Vec<String> {
        let Settings { dims, shapes, consts, defaults, states, customs, types, directory: _ } =
            &self.settings;
        let mut arguments = Vec::new();
        let mut push = |option: &str, value: &str| {
            arguments.push(format!("--{option} {}", shell_quoted(value)));
        };
        self.name.iter().for_each(|name| push("name", name));
        dims.iter().for_each(|(name, size)| push("dim", &format!("{name}={size}")));
        for (name, axes) in shapes {
            let axes: Vec<String> = axes.iter().map(Axis::to_string).collect();
            push("shape", &format!("{name}={}", axes.join(",")));
        }
        for (name, value) in consts {
            match value {
                Const::Default => push("const", name),
                Const::Value(value) => push("const", &format!("{name}={}", shortened(value))),
            }
        }
        if *defaults == Defaults::Constant {
            push("defaults", "constant");
        }
        states.iter().for_each(|(past, present)| push("state", &format!("{past}={present}")));
        for ((domain, name), function) in customs {
            push("custom", &format!("{}::{name}={function}", domain::shown(domain)));
        }
        types.iter().for_each(|(name, ty)| push("type", &format!("{name}={ty}")));
        if self.optimize == Optimize::Size {
            push("optimize", "size");
        }
        match self.precision {
            Precision::Full => {}
            Precision::Bf16 => push("precision", "bf16"),
            Precision::F16 => push("precision", "f16"),
            Precision::Int8Weights => push("precision", "int8-weights"),
        }
        if self.weights == Weights::Inline {
            push("weights", "inline");
        }
        match self.arena {
            None => {}
            Some(ArenaIn::Struct) => push("arena", "struct"),
            Some(ArenaIn::Heap) => push("arena", "heap"),
            Some(ArenaIn::Caller) => push("arena", "caller"),
        }
        self.max_arena.iter().for_each(|bytes| push("max-arena", &bytes.to_string()));
        arguments
    }
}

/// The diagnostic for states in an arena that the caller may share between models.
fn shared_state() -> Diagnostic {
    let message = "the model keeps its state in the arena, so no other model can share it";
    Diagnostic::new(Code::BadOption, message)
        .help("let the model have an arena of its own: `--arena struct`, or `--arena heap`")
}

/// Binds sizes and axes to a type of whole numbers. What no `i64` holds is the largest one, as no
/// tensor has so many elements either way.
macro_rules! sizes_of {
    ($($number:ty),*) => {$(
        impl From<$number> for Size {
            fn from(size: $number) -> Size {
                Size::Fixed(i64::try_from(size).unwrap_or(i64::MAX))
            }
        }

        impl From<RangeInclusive<$number>> for Size {
            fn from(bounds: RangeInclusive<$number>) -> Size {
                let [least, most] = [*bounds.start(), *bounds.end()];
                let [least, most] = [least, most].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
                Size::Between(least, most)
            }
        }

        impl From<$number> for Axis {
            fn from(size: $number) -> Axis {
                Axis::Fixed(i64::try_from(size).unwrap_or(i64::MAX))
            }
        }
    )*};
}

sizes_of!(i32, u32, usize);

/// The operator that `DOMAIN::OPERATOR` names; one of ONNX's own needs no domain.
pub fn operator(text: &str) -> Operator {
    let (domain, name) = text.rsplit_once("::").unwrap_or(("", text));
    (canonical(domain).to_owned(), name.to_owned())
}

/// Takes in what is said of `name`, or a diagnostic where it was said before: of two values, the person
/// may have meant either.
fn insert_once<K: Ord, V>(
    said: &mut BTreeMap<K, V>,
    what: &str,
    name: &str,
    key: K,
    value: V,
) -> Result {
    match said.insert(key, value) {
        None => Ok(()),
        Some(_) => {
            let message = format!("the {what} {} is given twice", quoted(name));
            Err(Diagnostic::new(Code::BadOption, message))
        }
    }
}

/// Returns a value of many characters shortened.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Returns a word as a shell takes it: in quotes where it has to be.
fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn split<'t>(text: &'t str, form: &str) -> Result<(&'t str, &'t str)> {
    let message = || format!("{} does not have the form `{form}`", quoted(text));
    let (name, value) =
        text.split_once('=').ok_or_else(|| Diagnostic::new(Code::BadOption, message()))?;
    Ok((name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_numbers_and_names() {
        let mut options = Options::default();
        assert!(options.shape("x=1, 3,height").is_ok() && options.shape("scalar=").is_ok());
        let named = Axis::Named("height".into());
        assert_eq!(options.settings.shapes["x"], [Axis::Fixed(1), Axis::Fixed(3), named]);
        assert_eq!(options.settings.shapes["scalar"], []);
        assert!(options.shape("x").is_err());
    }

    #[test]
    fn dimensions_are_fixed_or_bounded() {
        let mut options = Options::default();
        assert!(options.dim("batch=8").is_ok() && options.dim("seq=1..=32").is_ok());
        assert_eq!(options.settings.dims["batch"], Size::Fixed(8));
        assert_eq!(options.settings.dims["seq"], Size::Between(1, 32));
        for bad in ["batch", "batch=x", "batch=1..=x", "batch=1..32"] {
            assert!(options.dim(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_are_spelled_as_on_the_command_line() {
        let mut options = Options::default();
        assert!(options.to_arguments().is_empty());
        let given = [
            options.dim("batch=8"),
            options.dim("sequence length=1..=32"),
            options.shape("x=1,3,height"),
            options.constant("k=[1, 2]"),
            options.state("past=present"),
            options.custom("com.acme::Clip=crate::clip"),
            options.ty("y=float[n]"),
        ];
        assert!(given.iter().all(Result::is_ok));
        options.precision = Precision::Int8Weights;
        options.arena = Some(ArenaIn::Caller);
        let spelled = [
            "--dim batch=8",
            "--dim 'sequence length=1..=32'",
            "--shape x=1,3,height",
            "--const 'k=[1, 2]'",
            "--state past=present",
            "--custom com.acme::Clip=crate::clip",
            "--type 'y=float[n]'",
            "--precision int8-weights",
            "--arena caller",
        ];
        assert_eq!(options.to_arguments(), spelled);
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        type Take = fn(&mut Options, &str) -> Result;
        let cases: [(Take, [&str; 2], &str); 6] = [
            (Options::dim, ["n=1", "n=1..=2"], "the dimension `n`"),
            (Options::shape, ["x=1", "x = 2"], "the shape of `x`"),
            (Options::constant, ["k", "k=1"], "the constant `k`"),
            (Options::state, ["a=b", "a=c"], "the state `a`"),
            (Options::custom, ["Clip=a", "ai.onnx::Clip=b"], "the function for `ai.onnx::Clip`"),
            (Options::ty, ["y=float", "y=int64"], "the type of `y`"),
        ];
        for (take, [first, second], what) in cases {
            let mut options = Options::default();
            assert!(take(&mut options, first).is_ok(), "{first}");
            let said = take(&mut options, second).expect_err("it is said twice").message;
            assert_eq!(said, format!("{what} is given twice"));
        }
    }

    #[test]
    fn sizes_are_made_of_whole_numbers() {
        let fixed = [Size::from(3), Size::from(3_i64), Size::from(3_u32), Size::from(3_usize)];
        assert_eq!(fixed, [Size::Fixed(3); 4]);
        assert_eq!(Size::from(1..=3), Size::Between(1, 3));
        assert_eq!(Size::from(1..=3_usize), Size::Between(1, 3));
        #[cfg(target_pointer_width = "64")]
        assert_eq!(Size::from(usize::MAX), Size::Fixed(i64::MAX));
        assert_eq!([2.into(), Axis::from(2_usize)], [Axis::Fixed(2), Axis::Fixed(2)]);
    }
}
