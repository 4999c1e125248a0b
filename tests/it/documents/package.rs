//! Builds and runs the packages and snippets of pages, as cargo would.

use super::page::{Block, Page, Role};
use crate::programs::{crates, root, scratch};
use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Returns whether cargo itself runs, which builds the crates again.
pub fn real_cargo() -> bool {
    env::var_os("ONNXC_DOCUMENTS").is_some_and(|value| value == "cargo")
}

/// Panics unless the workspace has a package of that name.
pub fn check_is_member(name: &str, place: &str) {
    let workspace =
        fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is checked in");
    let (_, members) = workspace.split_once("members = [").expect("the workspace has members");
    let (members, _) = members.split_once(']').expect("the list ends");
    let found = members.split('"').skip(1).step_by(2).any(|member| {
        let manifest = root().join(member).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("members have manifests");
        manifest.contains(&format!("name = \"{name}\"\n"))
    });
    assert!(found, "{place}: the workspace has no package `{name}`");
}

/// A package in a folder.
pub struct Package<'p> {
    pub folder: &'p Path,
}

impl Package<'_> {
    /// Does what `cargo run`, `cargo test` or `cargo build` does.
    pub fn run(
        &self,
        command: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
        place: &str,
    ) -> Output {
        let out_dir = self.folder.join("target");
        fs::create_dir_all(&out_dir).expect("the folder is the test's");
        let build = self.folder.join("build.rs");
        if build.exists() {
            let script = self.rustc(&build, &[], &out_dir, place);
            let output = self.start(&script, &out_dir).output().expect("rustc wrote the file");
            assert_success(&output, place);
        }
        let flags: &[&str] = if command == "test" { &["--test"] } else { &[] };
        let program = self.rustc(&self.folder.join("src/main.rs"), flags, &out_dir, place);
        if command == "build" {
            return Command::new("rustc")
                .arg("--version")
                .output()
                .expect("rustc compiled this test");
        }
        let mut program = self.start(&program, &out_dir);
        program.args(arguments).envs(variables.iter().copied());
        program.output().expect("rustc wrote the file")
    }

    fn start(&self, program: &Path, out_dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder).env("OUT_DIR", out_dir).env_remove("CARGO");
        command
    }

    /// Compiles a program of the package.
    fn rustc(&self, source: &Path, flags: &[&str], out_dir: &Path, place: &str) -> PathBuf {
        let stem = source.file_stem().expect("sources have names");
        let program = out_dir.join(stem).with_extension(env::consts::EXE_EXTENSION);
        let mut command = rustc(source, &program);
        command.current_dir(self.folder).args(flags).env("OUT_DIR", out_dir);
        command.env("CARGO_MANIFEST_DIR", self.folder);
        assert_success(&command.output().expect("rustc compiled this test"), place);
        program
    }
}

/// Returns a command that compiles a program against the crates of the workspace.
fn rustc(source: &Path, program: &Path) -> Command {
    let mut command = Command::new("rustc");
    command.arg(source).args(["--edition=2024", "-Dwarnings", "-Cstrip=debuginfo"]);
    command.args(crates()).arg("-o").arg(program);
    command
}

fn assert_success(output: &Output, place: &str) {
    assert!(
        output.status.success(),
        "{place}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles the snippets of all pages as one program, and runs those of each page in its folder.
pub fn run_snippets(pages: &[(&Page, &Path, Vec<&Block>)]) {
    let (mut functions, mut arms) = (String::new(), String::new());
    for (index, (page, _, snippets)) in pages.iter().enumerate() {
        let mut calls = String::new();
        for snippet in snippets {
            let name = format!("page_{index}_line_{}", snippet.line);
            let place = page.place(snippet);
            assert!(!snippet.text.contains("fn main()"), "{place}: a program is a file");
            writeln!(
                functions,
                "// {place}\n#[allow(dead_code)]\nfn {name}() -> Result<(), \
                 Box<dyn std::error::Error>> {{\n{}Ok(())\n}}\n",
                snippet.text
            )
            .expect("text grows");
            if snippet.role == Role::Snippet {
                writeln!(calls, "        {name}()?;").expect("text grows");
            }
        }
        writeln!(arms, "    if page == \"{index}\" {{\n{calls}    }}").expect("text grows");
    }
    let folder = scratch("document_snippets");
    let source = folder.join("snippets.rs");
    let main = format!(
        "{functions}fn main() -> Result<(), Box<dyn std::error::Error>> {{\n    \
         let page = std::env::args().nth(1).ok_or(\"which page?\")?;\n{arms}    Ok(())\n}}\n"
    );
    fs::write(&source, main).expect("the folder is the test's");
    let program = source.with_extension(env::consts::EXE_EXTENSION);
    let output = rustc(&source, &program).output().expect("rustc compiled this test");
    assert_success(&output, "the snippets of the pages");
    for (index, (page, folder, _)) in pages.iter().enumerate() {
        let output = Command::new(&program).arg(index.to_string()).current_dir(folder).output();
        assert_success(&output.expect("rustc wrote the file"), &page.name.display().to_string());
    }
}
