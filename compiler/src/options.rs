//! The options of a compilation, for the program, the build script and the macro.
//!
//! # How to add an option
//!
//! 1. `compiler/src/options.rs`: a field of [`Options`], and a row of [`ARGUMENTS`], from which the
//!    command line and the macro follow. An enum names its words with `choices!`, beside the enum.
//! 2. `compiler/src/builder.rs`: a method.
//! 3. The file that uses it.
//!
//! `UPDATE=1 cargo test -p onnxc-tests` writes the page `docs/reference/options.md`.

mod spelling;

use crate::{
    byte_count,
    choice::{Choice, choices},
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, Result, quoted},
    domain::canonical,
    emit::{ArenaIn, Observed, Source, Style, WeightsIn},
    ident,
    import::{Const, Defaults, Operator, Settings},
    passes::OwnPass,
    plan::{FreeSizes, Optimize, Plan, Precision},
};
use spelling::{
    constant_argument, custom_argument, pairs, shape_argument, shell_quoted, unless_default,
};
use std::{collections::BTreeMap, path::Path};

/// The greatest size of an arena that is in the struct by default, in bytes.
const LARGEST_IN_STRUCT: usize = 64 * 1024;

/// How a model is compiled.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The name of the model, from which the name of the struct is made; by default that of the
    /// file.
    pub name: Option<String>,
    /// The name of the generated files without their extensions; by default that of the model
    /// file.
    pub stem: Option<String>,
    /// Dimensions, shapes and constants that the caller fixes.
    pub settings: Settings,
    /// Passes of the caller, which run in order before the others.
    pub passes: Vec<OwnPass>,
    /// The optimization goal.
    pub optimize: Optimize,
    /// The precision in which constant weights are stored.
    pub precision: Precision,
    /// The place of the weights.
    pub weights: Weights,
    /// The greatest size of the arena, in bytes; unlimited by default. Values are rematerialized to
    /// stay below it.
    pub max_arena: Option<usize>,
    /// The place of the arena; by default the struct, or the heap above 64 KiB.
    pub arena: Option<ArenaIn>,
    /// Whether the module shows the values of each node to a closure.
    pub taps: bool,
    /// Whether the module tells an observer when each node ends.
    pub profile: bool,
    /// Whether warnings are errors.
    pub deny_warnings: bool,
}

/// The place of the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// In a file beside the module.
    #[default]
    File,
    /// In the module, as a byte string.
    Inline,
    /// In a file beside the module, which the program does not include: the caller passes its
    /// bytes.
    Caller,
}

choices! { Weights:
    File "file" "In a file beside the module";
    Inline "inline" "In the module, as a byte string";
    Caller "caller" "In a file that is not included: the caller passes its bytes to `with_weights`";
}

impl Options {
    /// Sets the option called `name` on the command line to `value`. An option that may be repeated
    /// gets `value` too.
    ///
    /// # Errors
    ///
    /// Returns an error if no option has this name, or if `value` is not of its form.
    pub fn set(&mut self, name: &str, value: &str) -> Result {
        let Some(argument) = ARGUMENTS.iter().find(|argument| argument.name == name) else {
            let message = format!("there is no option {}", quoted(name));
            return Err(Diagnostic::new(Code::BadOption, message));
        };
        (argument.set)(self, value)
    }

    /// Adds `NAME=N`, `NAME=1..=N` or `NAME=OTHER`: the size of a dimension, its bound, or the
    /// dimension that it is the same as.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the dimension has a size already.
    pub fn dim(&mut self, text: &str) -> Result {
        let (name, size) = split(text, "--dim NAME=N")?;
        let size = size.parse()?;
        insert_once(&mut self.settings.dims, "dimension", name, name.to_owned(), size)
    }

    /// Adds `NAME=1,3,height,width`: the axes of an input or another value of unknown rank. Each
    /// size is a number or the name of a dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the input has a shape already.
    pub fn shape(&mut self, text: &str) -> Result {
        let (name, sizes) = split(text, "--shape NAME=SIZE,…")?;
        let axes = sizes.split_terminator(',').map(str::parse).collect::<Result<_>>()?;
        insert_once(&mut self.settings.shapes, "shape of", name, name.to_owned(), axes)
    }

    /// Adds `NAME=VALUE`, an input that is a constant, or `NAME`, an input that is its default.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is a constant already.
    pub fn constant(&mut self, text: &str) -> Result {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Const::Value(value.trim().to_owned())),
            None => (text, Const::Default),
        };
        let name = name.trim();
        insert_once(&mut self.settings.consts, "constant", name, name.to_owned(), value)
    }

    /// Adds `PAST=PRESENT`: an input, and the output that the next run reads from it.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the input is a state already.
    pub fn state(&mut self, text: &str) -> Result {
        let (past, present) = split(text, "--state PAST=PRESENT")?;
        let states = &mut self.settings.states;
        insert_once(states, "state", past, past.to_owned(), present.to_owned())
    }

    /// Adds `DOMAIN::OPERATOR=PATH`: the function that is called for an operator.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the operator has a function already.
    pub fn custom(&mut self, text: &str) -> Result {
        let (name, function) = split(text, "--custom DOMAIN::OPERATOR=PATH")?;
        let customs = &mut self.settings.customs;
        insert_once(customs, "function for", name, operator(name), function.to_owned())
    }

    /// Adds `NAME=TYPE`: the type of an output of a custom operator.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the output has a type already.
    pub fn ty(&mut self, text: &str) -> Result {
        let (name, ty) = split(text, "--type NAME=TYPE")?;
        insert_once(&mut self.settings.types, "type of", name, name.to_owned(), ty.to_owned())
    }

    /// Adds `NAME=N`: a limit of the work that a model causes.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` has another form, or if the limit is set already.
    pub fn limit(&mut self, text: &str) -> Result {
        let (name, number) = split(text, "--limit NAME=N")?;
        let limit = name.parse()?;
        let message = format!("the limit {} is a number, found {}", quoted(name), quoted(number));
        let number =
            byte_count::parse("limit", number).map_err(|error| Diagnostic { message, ..error })?;
        insert_once(&mut self.settings.limits.set, "limit", name, limit, number)
    }

    /// Reads external data from the directory of the model at `path`, unless another is set.
    pub fn beside(mut self, path: &Path) -> Options {
        let directory = &mut self.settings.directory;
        *directory = directory.take().or_else(|| path.parent().map(Path::to_owned));
        self
    }

    /// Checks the options against each other, before a model is read.
    ///
    /// # Errors
    ///
    /// Returns an error for every pair of options that exclude each other.
    pub fn validate(&self) -> std::result::Result<(), Diagnostics> {
        let diagnostics = DiagnosticSink::default();
        if self.optimize == Optimize::Size && self.precision != Precision::Full {
            let message = "`--optimize size` saves the memory that `--precision` needs for weights";
            let help = "omit `--precision`, or `--optimize size`";
            diagnostics.push(Diagnostic::new(Code::BadOption, message).help(help));
        }
        if !self.settings.states.is_empty() && self.arena == Some(ArenaIn::Caller) {
            diagnostics.push(shared_state());
        }
        diagnostics.finish()
    }

    /// Returns where buffers of free sizes are. In the struct and with the caller, the arena has a
    /// fixed size.
    pub fn free_sizes(&self) -> FreeSizes {
        match self.arena {
            Some(ArenaIn::Struct | ArenaIn::Caller) => FreeSizes::Heap,
            Some(ArenaIn::Heap) | None => FreeSizes::Arena,
        }
    }

    /// Returns the style of the module of `plan`. `stem` is the name of the model file without its
    /// extension.
    ///
    /// # Errors
    ///
    /// Returns an error if the model has variables, but its arena is the caller's.
    pub fn style(&self, plan: &Plan, stem: &str) -> Result<Style> {
        let stem = self.stem.as_deref().unwrap_or(stem);
        let name = self.name.clone().unwrap_or_else(|| stem.to_owned());
        let file = format!("{}.weights", ident::snake(stem));
        let weights = match self.weights {
            Weights::Inline => WeightsIn::Module,
            Weights::File => WeightsIn::File(file),
            Weights::Caller => WeightsIn::Caller(file),
        };
        let small = plan.arena_bytes <= LARGEST_IN_STRUCT && !plan.has_dynamic_arena;
        let arena = self.arena.unwrap_or(if small { ArenaIn::Struct } else { ArenaIn::Heap });
        if !plan.states.is_empty() && arena == ArenaIn::Caller {
            return Err(shared_state());
        }
        let observed = Observed { values: self.taps, times: self.profile };
        Ok(Style { name, weights, arena, observed, source: Source::default() })
    }

    /// Returns the options that differ from their defaults and change the module, as the command
    /// line spells them. Passes of the caller and the names of files have no spelling.
    pub fn to_arguments(&self) -> Vec<String> {
        let given = ARGUMENTS.iter().flat_map(|argument| {
            let values = (argument.get)(self).into_iter();
            values.map(|value| match argument.form {
                Form::Flag => format!("--{}", argument.name),
                _ => format!("--{} {}", argument.name, shell_quoted(&value)),
            })
        });
        given.collect()
    }
}

/// An option: `--name value` on the command line, and `name = value` in the macro.
pub struct Argument {
    /// The name on the command line, without `--`.
    pub name: &'static str,
    /// The line of `--help`.
    pub help: &'static str,
    /// The form of the value.
    pub form: Form,
    /// Whether only commands that write a module take it.
    pub is_of_module: bool,
    set: fn(&mut Options, &str) -> Result,
    /// The values that differ from the default, as `set` takes them.
    get: fn(&Options) -> Vec<String>,
}

/// The form of an option's value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any text. `--help` names it so.
    Text(&'static str),
    /// An integer. `--help` names it so.
    Number(&'static str),
    /// `true` or `false`. The command line has no value, which sets `true`.
    Flag,
    /// One of these words, each with its line of `--help`, and the default.
    Word(&'static [(&'static str, &'static str)], Option<&'static str>),
    /// A text of this form. The option may be repeated.
    List(&'static str),
}

const fn list(
    name: &'static str,
    form: &'static str,
    set: fn(&mut Options, &str) -> Result,
    get: fn(&Options) -> Vec<String>,
    help: &'static str,
) -> Argument {
    Argument { name, help, form: Form::List(form), is_of_module: false, set, get }
}

/// Every option, in the order of `--help`. The command line and the macro follow from it.
#[rustfmt::skip]
pub const ARGUMENTS: &[Argument] = &[
    Argument {
        name: "name",
        help: "Set the name of the model and its struct; by default that of the file",
        form: Form::Text("NAME"),
        is_of_module: false,
        set: |to, text| assign(&mut to.name, name(text).map(Some)),
        get: |of| of.name.iter().cloned().collect(),
    },
    list("dim", "NAME=N", Options::dim, |of| pairs(&of.settings.dims),
        "Fix a dimension (`batch=1`), bound it (`batch=1..=32`), or name it (`age_0=batch`)"),
    list("shape", "NAME=SIZES", Options::shape,
        |of| of.settings.shapes.iter().map(|(name, axes)| shape_argument(name, axes)).collect(),
        "Declare the axes of an input, or of another value of unknown rank (`x=1,3,height,width`)"),
    list("const", "NAME[=VALUE]", Options::constant,
        |of| of.settings.consts.iter().map(|(name, of)| constant_argument(name, of)).collect(),
        "Fix an input to a constant: a number or a list in brackets; without a value, its default"),
    Argument {
        name: "defaults",
        help: "The treatment of inputs with a default",
        form: Form::Word(Defaults::WORDS, Some("argument")),
        is_of_module: false,
        set: |to, word| assign(&mut to.settings.defaults, word.parse()),
        get: |of| unless_default(of.settings.defaults),
    },
    Argument {
        name: "deny-warnings",
        help: "Make warnings errors",
        form: Form::Flag,
        is_of_module: false,
        set: |to, word| assign(&mut to.deny_warnings, flag("deny-warnings", word)),
        // It does not change the module, whose header lists the options.
        get: |_| Vec::new(),
    },
    list("state", "PAST=PRESENT", Options::state, |of| pairs(&of.settings.states),
        "Feed an output back as an input of the next run: the model stores it as its state"),
    list("custom", "OPERATOR=PATH", Options::custom,
        |of| of.settings.customs.iter().map(|(name, path)| custom_argument(name, path)).collect(),
        "Call a function of your program for an operator (`com.acme::Clip=crate::clip`)"),
    list("type", "NAME=TYPE", Options::ty, |of| pairs(&of.settings.types),
        "Declare the type of an output of a custom operator (`y=float[n,10]`)"),
    Argument {
        name: "optimize",
        help: "The optimization goal",
        form: Form::Word(Optimize::WORDS, Some("speed")),
        is_of_module: false,
        set: |to, word| assign(&mut to.optimize, word.parse()),
        get: |of| unless_default(of.optimize),
    },
    Argument {
        name: "precision",
        help: "The precision in which constant weights are stored; accumulators are `f32`",
        form: Form::Word(Precision::WORDS, Some("full")),
        is_of_module: false,
        set: |to, word| assign(&mut to.precision, word.parse()),
        get: |of| unless_default(of.precision),
    },
    Argument {
        name: "weights",
        help: "Where the weights are",
        form: Form::Word(Weights::WORDS, Some("file")),
        is_of_module: true,
        set: |to, word| assign(&mut to.weights, word.parse()),
        get: |of| unless_default(of.weights),
    },
    Argument {
        name: "arena",
        help: "Where the arena, the memory of a run, is: an arena of up to 64 KiB is in the struct \
               by default, and one that is larger or depends on free sizes is on the heap",
        form: Form::Word(ArenaIn::WORDS, None),
        is_of_module: true,
        set: |to, word| assign(&mut to.arena, word.parse().map(Some)),
        get: |of| of.arena.iter().map(ArenaIn::to_string).collect(),
    },
    Argument {
        name: "max-arena",
        help: "Limit the size of the arena (`64K`, `1MiB`): values are recomputed to stay below it",
        form: Form::Number("BYTES"),
        is_of_module: true,
        set: |to, text| assign(&mut to.max_arena, byte_count::parse("max-arena", text).map(Some)),
        get: |of| of.max_arena.iter().map(usize::to_string).collect(),
    },
    Argument {
        name: "taps",
        help: "Add `infer_with`, which calls a closure with the values of each node",
        form: Form::Flag,
        is_of_module: true,
        set: |to, word| assign(&mut to.taps, flag("taps", word)),
        get: |of| of.taps.then(|| true.to_string()).into_iter().collect(),
    },
    Argument {
        name: "profile",
        help: "Add `infer_profiled`, which measures the time of each node",
        form: Form::Flag,
        is_of_module: true,
        set: |to, word| assign(&mut to.profile, flag("profile", word)),
        get: |of| of.profile.then(|| true.to_string()).into_iter().collect(),
    },
    list("limit", "NAME=N", Options::limit, |of| of.settings.limits.to_arguments(),
        "Set a limit of the work that a model causes when it is compiled (`nodes=500000`)"),
];

fn assign<T>(place: &mut T, value: Result<T>) -> Result {
    *place = value?;
    Ok(())
}

fn flag(option: &str, text: &str) -> Result<bool> {
    text.parse().map_err(|_| {
        let message = format!("`--{option}` expects `true` or `false`, found {}", quoted(text));
        Diagnostic::new(Code::BadOption, message)
    })
}

/// The error for states in an arena that the caller may share between models.
fn shared_state() -> Diagnostic {
    let message = "the model stores its state in the arena, so no other model can share it";
    Diagnostic::new(Code::BadOption, message)
        .help("give the model an arena of its own: `--arena struct`, or `--arena heap`")
}

/// Parses the name of a model, from which that of its struct is made.
fn name(text: &str) -> Result<String> {
    if text.chars().any(char::is_alphanumeric) {
        return Ok(text.to_owned());
    }
    let message = format!("the name {} has neither a letter nor a digit", quoted(text));
    Err(Diagnostic::new(Code::BadOption, message)
        .help("omit `--name`, and the model is named after its file"))
}

/// Parses `DOMAIN::OPERATOR`; an operator of the main operator set needs no domain.
pub fn operator(text: &str) -> Operator {
    let (domain, name) = text.rsplit_once("::").unwrap_or(("", text));
    (canonical(domain).to_owned(), name.to_owned())
}

/// Adds the value of `name`. A second value is an error, because it is unclear which one is meant.
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

fn split<'t>(text: &'t str, form: &str) -> Result<(&'t str, &'t str)> {
    let message = || format!("{} does not have the form `{form}`", quoted(text));
    let (name, value) =
        text.split_once('=').ok_or_else(|| Diagnostic::new(Code::BadOption, message()))?;
    Ok((name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Axis, Size};

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
    fn dimensions_are_fixed_bounded_or_the_same_as_others() {
        let mut options = Options::default();
        for text in ["batch=8", "seq=1..=32", "age_0=batch size"] {
            assert!(options.dim(text).is_ok(), "{text}");
        }
        assert_eq!(options.settings.dims["batch"], Size::Fixed(8));
        assert_eq!(options.settings.dims["seq"], Size::Between(1, 32));
        assert_eq!(options.settings.dims["age_0"], Size::Same("batch size".into()));
        for bad in ["n", "n=", "n=1..=x", "n=1..32", "n=8O", "n=-x", "n=a..b", "n=?"] {
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
    fn the_default_of_a_word_is_the_default_of_its_option() {
        for Argument { name, form, .. } in ARGUMENTS {
            let Form::Word(words, default) = form else { continue };
            for (word, _) in *words {
                let mut options = Options::default();
                assert!(options.set(name, word).is_ok(), "--{name} {word}");
                assert_eq!(options.to_arguments().is_empty(), *default == Some(*word), "{name}");
            }
        }
    }

    #[test]
    fn an_entry_that_is_given_twice_is_an_error() {
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
            let said =
                take(&mut options, second).expect_err("the second entry is an error").message;
            assert_eq!(said, format!("{what} is given twice"));
        }
    }
}
