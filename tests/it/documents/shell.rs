//! Runs the commands of a page.

use super::{
    package::{self, Package},
    page::{Block, Page, Role},
};
use crate::programs::{onnxc, root};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Runs the files and commands of a page in `folder`.
pub fn run_page(page: &Page, folder: &Path) {
    let mut shell = Shell { folder: folder.to_owned() };
    fs::create_dir(folder.join("src")).expect("the folder is new");
    for block in &page.blocks {
        let place = page.place(block);
        for (name, path) in &block.files {
            let (from, to) = (root().join(path), folder.join(name));
            create_parent(&to);
            fs::copy(&from, &to).unwrap_or_else(|error| panic!("{place}: {path}: {error}"));
        }
        match &block.role {
            Role::File(path) => shell.write(path, &block.text),
            Role::Commands => run_commands(&mut shell, block, &place),
            Role::Session => run_session(&mut shell, block, &place),
            Role::Text | Role::Skipped | Role::Snippet | Role::CompiledSnippet => {}
        }
    }
}

fn create_parent(path: &Path) {
    let parent = path.parent().expect("files are in a folder");
    fs::create_dir_all(parent).expect("the folder is the test's");
}

fn run_commands(shell: &mut Shell, block: &Block, place: &str) {
    for command in commands(&block.text) {
        if let Some(output) = shell.run(&command, place) {
            assert!(output.status.success(), "{place}: {command}\n{}", output_text(&output));
        }
    }
}

/// Runs the lines after `$` and compares what they print with what the block says.
fn run_session(shell: &mut Shell, block: &Block, place: &str) {
    for part in block.text.split("\n$ ") {
        let part = part.strip_prefix("$ ").unwrap_or(part);
        let end = commands_end(part);
        let (command, expected) = part.split_at(end);
        for command in commands(command) {
            if let Some(output) = shell.run(&command, place) {
                let found = output_text(&output);
                assert!(
                    matches(expected.trim(), found.trim()),
                    "{place}: `{command}` prints\n{found}"
                );
            }
        }
    }
}

/// The end of the first command of a text, with the lines that continue it.
fn commands_end(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    end
}

fn output_text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns whether a text is the expected one, in which `…` stands for any text.
fn matches(expected: &str, mut found: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(rest) = found.strip_prefix(first) else { return false };
    found = rest;
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return found.is_empty() };
    for part in between {
        let Some(at) = found.find(part) else { return false };
        found = &found[at + part.len()..];
    }
    found.ends_with(last)
}

/// The commands of a block: comments are left out, and lines that end in `\` are joined.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The words of a command; quotes hold words together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for c in command.chars() {
        match (c, quote) {
            (c, Some(end)) if c == end => quote = None,
            ('\'' | '"', None) => (quote, begun) = (Some(c), true),
            (' ', None) => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (c, _) => {
                word.push(c);
                begun = true;
            }
        }
    }
    words.extend(begun.then_some(word));
    words
}

/// A folder that commands run in.
struct Shell {
    folder: PathBuf,
}

impl Shell {
    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        create_parent(&path);
        fs::write(&path, text.replace("../onnxc", &root().display().to_string()))
            .expect("the folder is the test's");
    }

    /// Runs a command. Returns nothing if the command is none that prints.
    fn run(&mut self, command: &str, place: &str) -> Option<Output> {
        let all = words(&command.replace("../onnxc", &root().display().to_string()));
        let is_variable = |word: &&String| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            })
        };
        let count = all.iter().take_while(is_variable).count();
        let (variables, words) = all.split_at(count);
        let variables: Vec<(&str, &str)> =
            variables.iter().filter_map(|variable| variable.split_once('=')).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["cd", folder] => self.folder = self.folder.join(folder),
            ["mkdir", folder] => {
                fs::create_dir_all(self.folder.join(folder)).expect("the folder is the test's");
            }
            ["cp", from, to] => {
                let (from, to) = (self.folder.join(from), self.folder.join(to));
                let to = if to.is_dir() { to.join(from.file_name()?) } else { to };
                fs::copy(&from, to).unwrap_or_else(|error| panic!("{place}: {command}: {error}"));
            }
            ["onnxc", arguments @ ..] => {
                let mut program = onnxc();
                program.current_dir(&self.folder).args(arguments).envs(variables);
                return Some(program.output().expect("the program was built"));
            }
            ["cargo", arguments @ ..] => return self.cargo(arguments, &variables, place),
            _ => panic!("{place}: the tests do not know the command `{command}`"),
        }
        None
    }

    fn cargo(
        &mut self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        place: &str,
    ) -> Option<Output> {
        let package = Package { folder: &self.folder };
        match arguments {
            ["new", name] => {
                let source = self.folder.join(name).join("src");
                fs::create_dir_all(source).expect("the folder is the test's");
                None
            }
            ["install", "--path", path] | ["add", "--path", path, ..] => {
                let path = path.trim_start_matches("../onnxc/");
                let manifest = root().join(path).join("Cargo.toml");
                assert!(manifest.exists(), "{place}: there is no package in {path}");
                None
            }
            _ if arguments.contains(&"-p") => {
                let at = arguments.iter().position(|word| *word == "-p").map_or(0, |at| at + 1);
                package::check_is_member(arguments.get(at).copied().unwrap_or_default(), place);
                package::real_cargo().then(|| run_cargo(root(), arguments, variables))
            }
            ["test", "--workspace"] => None,
            _ if package::real_cargo() => Some(run_cargo(&self.folder, arguments, variables)),
            ["run" | "test" | "build", ..] => {
                let behind = arguments.iter().position(|word| *word == "--");
                let program = behind.map_or(&[][..], |at| &arguments[at + 1..]);
                Some(package.run(arguments[0], program, variables, place))
            }
            _ => panic!("{place}: the tests do not know `cargo {}`", arguments.join(" ")),
        }
    }
}

fn run_cargo(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let target = root().join("target/documents");
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(arguments).envs(variables.iter().copied());
    command.env("CARGO_TARGET_DIR", target).arg("--quiet");
    command.output().expect("cargo built this test")
}

#[test]
fn commands_are_split_into_words() {
    let text = "onnxc a.onnx \\\n  --const 'k=[1, 2]' # why\n# alone\ncargo run\n";
    let found = commands(text);
    assert_eq!(found, ["onnxc a.onnx    --const 'k=[1, 2]'", "cargo run"]);
    assert_eq!(words(&found[0]), ["onnxc", "a.onnx", "--const", "k=[1, 2]"]);
}

#[test]
fn an_ellipsis_matches_any_text() {
    assert!(matches("a … d", "a b c d") && matches("…", "") && matches("a", "a"));
    assert!(!matches("a … d", "a b c") && !matches("a", "ab"));
}
