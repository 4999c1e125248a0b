//! The options of a compilation, on the command line.

use super::inputs;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use onnxc::{
    Options, byte_count,
    choice::Choice,
    diag::{Diagnostic, DiagnosticSink, Diagnostics},
    options::{ARGUMENTS, Argument, Form},
};
use std::{fmt::Debug, str::FromStr};

/// The options of a compilation that every command takes: [`ARGUMENTS`], without those of a module.
pub type Shared = Given<false>;

/// The options that only commands that write a module take.
pub type OfModule = Given<true>;

/// Options as they are given: the name and the value of each.
#[derive(Clone, Debug)]
pub struct Given<const OF_MODULE: bool>(Vec<(&'static str, String)>);

impl<const OF_MODULE: bool> Given<OF_MODULE> {
    /// Sets each option.
    pub fn set(&self, options: &mut Options) -> Result<(), Diagnostic> {
        self.0.iter().try_for_each(|(name, value)| options.set(name, value))
    }

    fn arguments() -> impl Iterator<Item = &'static Argument> {
        ARGUMENTS.iter().filter(|argument| argument.is_of_module == OF_MODULE)
    }
}

impl Shared {
    /// Returns the options.
    pub fn options(&self) -> Result<Options, Diagnostic> {
        let mut options = Options::default();
        self.set(&mut options)?;
        Ok(options)
    }
}

impl<const OF_MODULE: bool> Args for Given<OF_MODULE> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::arguments().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const OF_MODULE: bool> FromArgMatches for Given<OF_MODULE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for &Argument { name, form, .. } in Self::arguments() {
            if matches!(form, Form::Flag) {
                given.extend(matches.get_flag(name).then(|| (name, true.to_string())));
                continue;
            }
            let values = matches.get_many::<String>(name).into_iter().flatten();
            given.extend(values.map(|value| (name, value.clone())));
        }
        Ok(Given(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(argument: &'static Argument) -> Arg {
    let arg = Arg::new(argument.name).long(argument.name).help(argument.help);
    match argument.form {
        Form::Text(name) => arg.value_name(name),
        Form::Number(name) => arg.value_name(name).allow_negative_numbers(true),
        Form::List(name) => arg.value_name(name).action(ArgAction::Append),
        Form::Flag => arg.action(ArgAction::SetTrue),
        Form::Word(words, default) => {
            arg.value_parser(possible_values(words)).default_value(default)
        }
    }
}

fn possible_values(words: &'static [(&str, &str)]) -> PossibleValuesParser {
    let values = words.iter().map(|(word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(values)
}

/// The command that takes several files for an input. Each is that of a run.
const OF_SEVERAL_RUNS: &str = "run";

/// Checks the values of the options of a compilation, which clap takes as texts, before a command
/// runs. `matches` are those of the program.
///
/// # Errors
///
/// Returns an error for every value of a wrong form, for options that exclude each other, and for
/// repeated inputs of a command that runs the model once.
pub fn check(matches: &ArgMatches) -> Result<(), Diagnostics> {
    let (command, matches) = matches.subcommand().unwrap_or(("", matches));
    let (mut options, errors) = (Options::default(), DiagnosticSink::default());
    for argument in ARGUMENTS {
        // The command may lack the option. A flag is no text, and cannot be wrong.
        let Ok(Some(values)) = matches.try_get_many::<String>(argument.name) else { continue };
        for value in values {
            errors.keep(options.set(argument.name, value));
        }
    }
    if command != OF_SEVERAL_RUNS
        && let Ok(Some(inputs)) = matches.try_get_many::<String>("input")
    {
        inputs::repeated(command, inputs).into_iter().for_each(|error| errors.push(error));
    }
    errors.finish()?;
    options.validate()
}

/// Parses the form of `--input`.
pub fn input(text: &str) -> Result<String, &'static str> {
    let is_pair = |(name, file): (&str, &str)| !name.is_empty() && !file.is_empty();
    let is_pair = text.split_once('=').is_some_and(is_pair);
    is_pair.then(|| text.to_owned()).ok_or("expected NAME=FILE, such as `x=x.npy`")
}

/// Parses a number of bytes.
pub fn bytes(text: &str) -> Result<usize, &'static str> {
    byte_count::parse("", text)
        .map_err(|_| "expected a number of bytes, such as `65536`, `64K`, `64KiB` or `1M`")
}

/// Parses a finite number.
pub fn number(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or("expected a number, such as 0.001")
}

/// Parses a finite number that is not negative.
pub fn not_negative(text: &str) -> Result<f64, &'static str> {
    let number = number(text).ok().filter(|&number| number >= 0.0);
    number.ok_or("expected a number, 0 or more, such as 0.001")
}

/// Parses a whole number.
pub fn whole_number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected a whole number")
}

/// Returns the parser of an option whose value is a word; `--help` lists the words.
pub fn one_of<T>() -> impl TypedValueParser<Value = T>
where
    T: Choice + FromStr<Err = Diagnostic> + Send + Sync,
{
    possible_values(T::WORDS).try_map(|word| word.parse::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_a_name_and_a_file() {
        assert!(input("x=x.npy").is_ok() && input("a=b=c").is_ok());
        assert!(["x", "x=", "=x"].iter().all(|text| input(text).is_err()));
    }
}
