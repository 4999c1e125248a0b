//! The blocks of a page.

use crate::programs::root;
use std::{fs, path::PathBuf};

/// A page of the book, or the README.
pub struct Page {
    /// The path in the repository.
    pub name: PathBuf,
    pub text: String,
    pub blocks: Vec<Block>,
}

/// A fenced block.
pub struct Block {
    /// The line of the fence, from 1.
    pub line: usize,
    pub role: Role,
    pub text: String,
    /// Files to copy before the block runs: the name in the folder, the path in the repository.
    pub files: Vec<(String, String)>,
}

/// The use that a test makes of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing: it is in no language that is run.
    Text,
    /// Nothing, for the reason that the page gives.
    Skipped,
    /// Writes it to a file.
    File(String),
    /// Runs its lines.
    Commands,
    /// Runs its lines after `$`, and compares what they print with the other lines.
    Session,
    /// Compiles it and runs it.
    Snippet,
    /// Compiles it.
    CompiledSnippet,
}

impl Page {
    /// Reads a page.
    pub fn read(path: PathBuf) -> Page {
        let text = fs::read_to_string(&path).expect("pages are UTF-8");
        let name = path.strip_prefix(root()).expect("pages are in the repository").to_owned();
        let blocks = blocks(&text).unwrap_or_else(|error| panic!("{}:{error}", name.display()));
        Page { name, text, blocks }
    }

    /// The blocks of Rust code that are no files.
    pub fn snippets(&self) -> Vec<&Block> {
        let is_snippet =
            |block: &&Block| matches!(block.role, Role::Snippet | Role::CompiledSnippet);
        self.blocks.iter().filter(is_snippet).collect()
    }

    /// The place of a block, for messages.
    pub fn place(&self, block: &Block) -> String {
        format!("{}:{}", self.name.display(), block.line)
    }
}

/// The blocks of a text, or the line and the message of an error.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut comments: Vec<&str> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        let Some(language) = line.strip_prefix("```") else {
            match line.strip_prefix("<!--").and_then(|line| line.strip_suffix("-->")) {
                Some(comment) => comments.push(comment.trim()),
                None if line.is_empty() => {}
                None if comments.is_empty() => {}
                None => return Err(format!("{}: a comment above belongs to no block", at + 1)),
            }
            continue;
        };
        let indent = text.lines().nth(at).map_or(0, |whole| whole.len() - line.len());
        let inside: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line.get(indent..).unwrap_or(""))
            .take_while(|line| *line != "```")
            .collect();
        let error = |message: String| format!("{}: {message}", at + 1);
        let (role, files) = role(language, &comments).map_err(error)?;
        comments.clear();
        let text = inside.iter().flat_map(|line| [*line, "\n"]).collect();
        blocks.push(Block { line: at + 1, role, text, files });
    }
    Ok(blocks)
}

type Files = Vec<(String, String)>;

/// The role of a block, and the files that its comments name.
fn role(language: &str, comments: &[&str]) -> Result<(Role, Files), String> {
    let mut role = match language {
        "sh" => Role::Commands,
        "console" => Role::Session,
        "rust" => Role::Snippet,
        "rust,no_run" => Role::CompiledSnippet,
        "text" | "toml" | "js" | "json" | "python" | "html" => Role::Text,
        _ => return Err(format!("`{language}` is no language that pages use")),
    };
    let mut files = Vec::new();
    for comment in comments {
        match comment.split_once(": ") {
            Some(("skip", _)) => role = Role::Skipped,
            Some(("file", path)) => role = Role::File(path.to_owned()),
            Some(("files", list)) => {
                for file in list.split_whitespace() {
                    let (name, path) = file.split_once('=').ok_or("files are `NAME=PATH`")?;
                    files.push((name.to_owned(), path.to_owned()));
                }
            }
            _ => return Err(format!("`{comment}` is no comment that the tests know")),
        }
    }
    Ok((role, files))
}

#[test]
fn blocks_have_roles() {
    let text = "# Page\n\n```text\na\n```\n\n\
                <!-- file: src/main.rs -->\n```rust\nfn main() {}\n```\n\n\
                <!-- files: m=n -->\n```console\n$ x\n```\n\n\
                1. item\n   ```sh\n   y\n   ```\n";
    let blocks = blocks(text).expect("the text is a page");
    let roles: Vec<&Role> = blocks.iter().map(|block| &block.role).collect();
    let file = Role::File("src/main.rs".to_owned());
    assert_eq!(roles, [&Role::Text, &file, &Role::Session, &Role::Commands]);
    assert_eq!(blocks[1].text, "fn main() {}\n");
    assert_eq!(blocks[2].files, [("m".to_owned(), "n".to_owned())]);
    assert_eq!(blocks[3].text, "y\n");
    assert!(role("perl", &[]).is_err() && role("sh", &["files: x"]).is_err());
}
